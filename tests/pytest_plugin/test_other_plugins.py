"""Beside pytest-xdist and pytest-randomly: the same figures, the same summary, the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncost.plugin.results import Results
from tests.pytest_plugin.conftest import Run

TESTS = "shared = Tagger()\n" + "".join(
    f"def test_{n}():\n    packed([{n + 2}, 1])\n    shared(torch.zeros({n + 1}, 2, 2))\n\n" for n in range(6)
)
OWN = [
    "@pytest.mark.limit_macs(1)\ndef test_limit(): packed([5, 2])\n",
    "@pytest.mark.xfail\n@pytest.mark.limit_macs(1)\ndef test_xfail(): packed([5, 2])\n",
]


@pytest.fixture
def saved(pytester: pytest.Pytester) -> Path:
    return pytester.path / ".rnncost" / "main.json"


def own_lines(result: pytest.RunResult) -> list[str]:
    start = next(number for number, line in enumerate(result.outlines) if "rnncost: recurrent work" in line)
    return result.outlines[start:-1]


@pytest.mark.parametrize("options", [["-n2"], ["-n2", "--dist=loadscope"], ["-n1"]])
def test_xdist_changes_no_byte(run: Run, saved: Path, pytester: pytest.Pytester, options: list[str]) -> None:
    written, shown = [], []
    for extra in ([], options):
        saved.unlink(missing_ok=True)
        result = run(TESTS + "\n".join(OWN), "--rnncost", "--rnncost-save=main", "--rnncost-json=all.json", *extra)
        result.assert_outcomes(passed=6, failed=1, xfailed=1)
        written.append((saved.read_bytes(), (pytester.path / "all.json").read_bytes()))
        shown.append(own_lines(result))
    assert written[0] == written[1]
    assert shown[0] == shown[1]
    assert "rnncost: 420 MACs executed, limit 1" in result.outlines


def test_a_comparison_under_xdist(run: Run) -> None:
    run(TESTS + "def test_gone(): packed([5, 2])\n", "--rnncost-save=main")
    grown = TESTS.replace("packed([5, 1])", "packed([5, 5])")
    shown = [run(grown, "--rnncost", "--rnncost-compare=main", *options) for options in ([], ["-n2"], ["-n2", "-k3"])]
    assert [result.ret for result in shown] == [1, 1, 1]
    assert own_lines(shown[0]) == own_lines(shown[1])
    assert "REGRESSION test_it.py::test_3" in shown[1].outlines
    assert "  test_it.py::test_gone" in shown[1].outlines
    assert "1 test compared with .rnncost/main.json, limit mults:0%: 1 grew beyond the limit" in shown[2].outlines
    assert "5 tests of the baseline did not run." in shown[2].outlines


def test_a_worker_that_crashes_saves_what_the_others_ran(run: Run, saved: Path) -> None:
    run(TESTS, "--rnncost-save=main")
    before = saved.read_text()
    result = run(TESTS + "import os\ndef test_crash(): os._exit(3)\n", "--rnncost-save=main", "-n2")
    assert result.ret == 1
    assert saved.read_text() == before


def test_usage_errors_under_xdist(run: Run) -> None:
    assert run(TESTS, "--rnncost-top=x", "-n2").ret == pytest.ExitCode.USAGE_ERROR
    bad = run("@pytest.mark.limit_macs('x')\ndef test_one(): pass", "-n2")
    bad.stdout.fnmatch_lines(["test_it.py::test_one: limit_macs('x'): 'x' is not a count; *"])


def test_a_random_order_changes_nothing(pytester: pytest.Pytester, run: Run, saved: Path) -> None:
    pytest.importorskip("pytest_randomly")
    run(TESTS, "--rnncost-save=main")
    before = saved.read_text()
    orders = set()
    for seed in (1, 2, 3):
        result = pytester.runpytest(
            "-v", "-p", "no:asyncio", "-p", "no:cacheprovider", f"--randomly-seed={seed}",
            "--rnncost-save=main", "--rnncost-compare=main",
        )  # fmt: skip
        result.assert_outcomes(passed=6)
        assert result.ret == 0
        assert saved.read_text() == before
        orders.add(tuple(line.split()[0] for line in result.outlines if " PASSED" in line))
    assert len(orders) == 3


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("test_it.py::test_a@group", "test_it.py::test_a"),
        ("test_it.py::test_a[x@y]@group", "test_it.py::test_a[x@y]"),
        ("test_it.py::test_a[x@y]", "test_it.py::test_a[x@y]"),
        ("a@b/test_it.py::test_a", "a@b/test_it.py::test_a"),
        ("test_it.py::test_a", "test_it.py::test_a"),
    ],
)
def test_the_group_of_a_test_is_no_part_of_its_name(name: str, bare: str) -> None:
    # Where pytest keeps node ids as text, --dist loadgroup adds the group; later ones ignore what it does.
    results = Results(grouped=True)
    results.pytest_runtest_logreport(pytest.TestReport(name, ("", None, ""), {}, "passed", None, "call"))
    assert results.outcomes == {bare: "passed"}


def test_groups_change_no_name(run: Run, saved: Path) -> None:
    grouped = "@pytest.mark.xdist_group('g')\n@pytest.mark.parametrize('x', ['a@b'])\ndef test_g(x): packed()\n"
    written = []
    for options in ([], ["-n2", "--dist=loadgroup"]):
        saved.unlink(missing_ok=True)
        run(grouped, "--rnncost-save=main", *options)
        written.append(saved.read_bytes())
    assert written[0] == written[1]


def test_a_failure_of_one_worker_is_kept_where_each_runs_all(run: Run, saved: Path) -> None:
    run("def test_a(): packed([5, 2])", "--rnncost-save=main")
    before = saved.read_text()
    result = run(
        "import os, time\nfirst = os.environ['PYTEST_XDIST_WORKER'] == 'gw0'\n"
        "@pytest.fixture\ndef later():\n    time.sleep(0 if first else 2)\n"
        "def test_a(later):\n    packed([9, 9])\n    assert not first\n",
        "--rnncost-save=main",
        "-n2",
        "--dist=each",
    )
    result.assert_outcomes(passed=1, failed=1)
    assert saved.read_text() == before
