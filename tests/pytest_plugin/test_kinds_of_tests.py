"""The markers on tests of every kind: what is counted, and which marker holds."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tests.pytest_plugin.conftest import Run

EXCEEDED = "rnncost: 420 MACs executed, limit 419"


def test_the_closest_marker_holds(run: Run) -> None:
    result = run(
        """
pytestmark = pytest.mark.limit_macs(1)

def test_module(): packed()  # missed

@pytest.mark.limit_macs(420)
def test_function(): packed()

@pytest.mark.limit_macs(1)
@pytest.mark.limit_macs(420)
def test_inner_of_two(): packed()

@pytest.mark.limit_macs(2)
@pytest.mark.parametrize("call", [pytest.param(packed, marks=pytest.mark.limit_macs(420)), packed])
def test_parameter(call): call()  # missed once

@pytest.mark.limit_macs(3)
class TestBase:
    def test_class(self): packed()  # missed

    @pytest.mark.limit_macs(420)
    def test_method(self): packed()

@pytest.mark.limit_macs(420)
class TestDerived(TestBase):
    pass

class TestInheriting(TestBase):
    pytestmark = [pytest.mark.min_saved("30%")]
"""
    )
    failed = [line.split(" - ")[0].split("::", 1)[1] for line in result.outlines if line.startswith("FAILED")]
    assert failed == [
        "test_module",
        "test_parameter[packed1]",
        "TestBase::test_class",
        "TestInheriting::test_class",
    ]
    assert [line.split()[-1] for line in result.outlines if line.startswith("rnncost: 420")] == [*"1233"]


def test_markers_of_different_names_hold_together_from_all_levels(run: Run) -> None:
    result = run(
        "pytestmark = pytest.mark.limit_macs(419)\n\n"
        "@pytest.mark.min_saved('40%')\nclass TestIt:\n"
        "    @pytest.mark.max_wasted('0%')\n    def test_one(self): packed()\n"
    )
    assert [line for line in result.outlines if line.startswith("rnncost: ")] == [
        EXCEEDED,
        "rnncost: 30.0 % of the padded mults saved, limit 40.0 %",
    ]


def test_unittest_cases(run: Run) -> None:
    result = run(
        """
import unittest

@pytest.mark.limit_macs(419)
class Case(unittest.TestCase):
    def test_missed(self): packed()

    @pytest.mark.limit_macs(420)
    def test_kept(self): packed()

    def test_own(self):
        packed()
        self.assertEqual(1, 2)

    def test_skipped(self): self.skipTest("no")
"""
    )
    result.assert_outcomes(passed=1, failed=2, skipped=1)
    assert EXCEEDED in result.outlines
    result.stdout.fnmatch_lines(["E*AssertionError: 1 != 2", "*--- rnncost ---*", EXCEEDED])


@pytest.mark.parametrize("way", ["hook", "pytest-asyncio"])
def test_async_tests(run: Run, pytester: pytest.Pytester, way: str) -> None:
    hook = (
        "import asyncio\ndef pytest_pyfunc_call(pyfuncitem):\n"
        "    asyncio.run(pyfuncitem.obj())\n    return True\n"
        "def pytest_configure(config): config.addinivalue_line('markers', 'asyncio: runs')\n"
    )
    options = ["-o", "asyncio_default_fixture_loop_scope=function", "-p", "pytest_asyncio.plugin"]
    if way == "hook":
        pytester.makeconftest(hook)
        options = []
    elif importlib.util.find_spec("pytest_asyncio") is None:
        pytest.skip("pytest-asyncio is not installed")
    result = run(
        "import asyncio\n"
        "async def later():\n    await asyncio.sleep(0)\n    packed()\n\n"
        "@pytest.mark.asyncio\n@pytest.mark.limit_macs(840)\n"
        "async def test_kept(): await asyncio.gather(later(), later())\n\n"
        "@pytest.mark.asyncio\n@pytest.mark.limit_macs(419)\nasync def test_missed(): await later()\n",
        *options,
    )
    result.assert_outcomes(passed=1, failed=1)
    assert EXCEEDED in result.outlines


def test_threads_and_backward_passes_are_counted(run: Run) -> None:
    result = run(
        """
import threading

@pytest.mark.limit_macs(839)
def test_threads():
    threads = [threading.Thread(target=packed) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

@pytest.mark.limit_macs(420)
def test_backward():
    packed().data.sum().backward()
"""
    )
    result.stdout.fnmatch_lines(
        # Backward: weights 7 rows x 12 x (2 + 3), states 12 x 3 for each of the 5 rows after the first step.
        [
            "rnncost: 840 MACs executed, limit 839",
            f"rnncost: {420 + 420 + 180:,} MACs executed, limit 420",
        ]
    )


def test_trackers_of_the_test_itself_and_the_fixture(run: Run) -> None:
    result = run(
        """
import rnncost
from rnncost.testing import assert_max_macs, assert_max_wasted

@pytest.mark.limit_macs(420)
def test_nested(rnncost_tracker):
    model = Tagger()
    with rnncost_tracker(model) as tracker, rnncost.CostTracker() as other:
        model(torch.zeros(5, 2, 2), torch.tensor([5, 2]))
    assert tracker.report.executed.macs == other.report.executed.macs == 420
    assert_max_macs(tracker.report, 420)

def test_asserted(rnncost_tracker):
    model = Tagger()
    with rnncost_tracker(model, lengths=[5, 2]) as tracker:
        model(torch.zeros(5, 2, 2))
    assert_max_wasted(tracker.report, "5%")
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E*RegressionError: 30.0 % of the executed mults wasted on padding, limit 5.0 %"])


def test_skips_reruns_and_early_ends(run: Run) -> None:
    result = run(
        """
tries = []

@pytest.mark.limit_macs(419)
def test_skipped():
    packed()
    pytest.skip("no")

@pytest.mark.limit_macs(419)
def test_expected():
    pytest.xfail("no")

@pytest.mark.flaky(reruns=1)
@pytest.mark.limit_macs(420)
def test_flaky():
    tries.append(1)
    packed()
    if len(tries) == 1:
        packed()

@pytest.mark.limit_macs(419)
def test_exit():
    pytest.exit("enough")
"""
    )
    assert result.parseoutcomes() == {"skipped": 1, "xfailed": 1, "rerun": 1, "passed": 1}
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_the_run_stops_at_the_first_missed_limit(run: Run) -> None:
    result = run("@pytest.mark.limit_macs(419)\n@pytest.mark.parametrize('n', [1, 2])\ndef test_n(n): packed()", "-x")
    assert result.parseoutcomes() == {"failed": 1}


def test_doctests_and_subtests_are_left_alone(run: Run) -> None:
    result = run(
        'def double(x):\n    """\n    >>> double(2)\n    4\n    """\n    return 2 * x\n\n'
        "@pytest.mark.limit_macs(419)\ndef test_sub(subtests):\n"
        "    for n in range(2):\n        with subtests.test(n=n):\n            packed()\n",
        "--doctest-modules",
        "--rnncost",
    )
    assert result.parseoutcomes()["failed"] >= 1
    assert "rnncost: 840 MACs executed, limit 419" in result.outlines


def test_the_failure_stands_in_junit_xml(run: Run, pytester: pytest.Pytester) -> None:
    run("@pytest.mark.limit_macs(419)\ndef test_one(): packed()", "--junitxml=out.xml", "--rnncost")
    xml = (pytester.path / "out.xml").read_text()
    assert '<failure message="rnncost: 420 MACs executed, limit 419' in xml
    assert "layers" not in xml
    assert len(xml) < 1000


def test_a_missed_limit_looks_the_same_in_all_styles(run: Run) -> None:
    for style in ("line", "short", "native", "no"):
        result = run("@pytest.mark.limit_macs(419)\ndef test_one(): packed()", f"--tb={style}")
        result.assert_outcomes(failed=1)
        assert not any("meter.py" in line for line in result.outlines)


def test_a_test_is_what_its_subtests_make_it(run: Run, pytester: pytest.Pytester) -> None:
    result = run(
        """
import unittest

class Case(unittest.TestCase):
    def test_skips(self):
        packed()
        with self.subTest(n=1):
            self.skipTest("why")

def test_skips(subtests):
    packed()
    with subtests.test("a"):
        pytest.skip("why")

def test_fails(subtests):
    packed()
    with subtests.test("a"):
        assert 0
    with subtests.test("b"):
        pass
""",
        "--rnncost-save=main",
        "--rnncost-json=all.json",
    )
    assert result.ret == 1
    tests = json.loads((pytester.path / "all.json").read_text())["tests"]
    assert {name: test["outcome"] for name, test in tests.items()} == {
        "test_it.py::Case::test_skips": "passed",
        "test_it.py::test_fails": "failed",
        "test_it.py::test_skips": "passed",
    }


@pytest.mark.parametrize(
    "take", ["hooks.clear()", "monkeypatch.setattr(module, '_global_forward_hooks', type(hooks)())"]
)
def test_a_test_that_takes_torchs_global_hooks_away_fails_its_limit(run: Run, take: str) -> None:
    result = run(
        "from torch.nn.modules import module\n@pytest.mark.limit_macs(420)\ndef test_one(monkeypatch):\n"
        f"    packed()\n    hooks = module._global_forward_hooks\n    {take}\n    packed()\n"
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "rnncost: cannot be guaranteed, since recurrent work is uncounted",
            "  any (Module) is not counted: torch's global hooks were taken away, and what ran after that went unseen",
        ]
    )
