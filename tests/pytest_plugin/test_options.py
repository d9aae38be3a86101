"""Each option from the command line and from the ini file, and the summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pytest_plugin.conftest import Run

TESTS = "def test_small(): packed()\ndef test_large(): padded()\ndef test_none(): pass\n"
SUMMARY = [
    "=========================== rnncost: recurrent work ============================",
    "     MACs    saved   wasted  test",
    "      600    0.0 %        ?  test_it.py::test_large",
    "      420   30.0 %    0.0 %  test_it.py::test_small",
    "    1,020   15.0 %        ?  all 2 tests",
    "? = unknown: padded batches without true lengths.",
]


@pytest.fixture
def either(request: pytest.FixtureRequest, run: Run, pytester: pytest.Pytester) -> Run:
    """A run whose options, given as ``name=value``, stand on the command line or in the ini file."""

    def either(source: str, *options: str) -> pytest.RunResult:
        if request.param == "ini":
            lines = [option if "=" in option else f"{option}=true" for option in options]
            pytester.makeini("\n".join(["[pytest]", *lines]))
            return run(source)
        return run(
            source, *(f"--{option.replace('_', '-', option.partition('=')[0].count('_'))}" for option in options)
        )

    return either


both_sides = pytest.mark.parametrize("either", ["command line", "ini"], indirect=True)


@both_sides
def test_summary(either: Run) -> None:
    result = either(TESTS, "rnncost")
    start = result.outlines.index(SUMMARY[0])
    assert result.outlines[start : start + len(SUMMARY)] == SUMMARY
    result.assert_outcomes(passed=3)


@both_sides
def test_top(either: Run) -> None:
    shown = either(TESTS, "rnncost", "rnncost_top=1").outlines
    assert SUMMARY[2] in shown
    assert SUMMARY[3] not in shown
    assert "      420   30.0 %    0.0 %  1 test more (--rnncost-top)" in shown


@both_sides
def test_json(either: Run, pytester: pytest.Pytester) -> None:
    either(
        TESTS + "@pytest.mark.xfail\ndef test_x(): packed()\ndef test_f(): assert not packed()", "rnncost_json=a_b.json"
    )
    text = (pytester.path / "a_b.json").read_text()
    document = json.loads(text)
    assert document["schema_version"] == 1
    assert {name: test["outcome"] for name, test in document["tests"].items()} == {
        "test_it.py::test_f": "failed",
        "test_it.py::test_large": "passed",
        "test_it.py::test_none": "passed",
        "test_it.py::test_small": "passed",
        "test_it.py::test_x": "xpassed",
    }
    small, large = (document["tests"][f"test_it.py::test_{name}"] for name in ("small", "large"))
    assert (small["saved_fraction"], small["wasted_fraction"], large["wasted_fraction"]) == (0.3, 0.0, None)
    assert small["total"]["macs"] == 420
    assert '"mults": {"executed": 690, "padded": 690, "packed": null}' in text


@both_sides
def test_save_and_compare(either: Run, pytester: pytest.Pytester) -> None:
    result = either(TESTS, "rnncost_save=my_base", "rnncost_compare=my_base")
    assert "Saved .rnncost/my_base.json: 2 tests, 2 of this run (2 new, 0 changed)." in result.outlines
    result.stdout.fnmatch_lines(
        [
            "WARNING: nothing was compared, since there is no .rnncost/my_base.json; "
            "make it with `pytest --rnncost-save my_base` and commit it."
        ]
    )
    assert result.ret == 0
    again = either(TESTS, "rnncost_compare=my_base")
    assert "2 tests compared with .rnncost/my_base.json, limit mults:0%: none grew beyond the limit" in again.outlines
    assert again.ret == 0


@both_sides
@pytest.mark.parametrize(("limit", "status"), [("mults:14%", 1), ("mults:15%", 0), ("rows:1", 0), ("none", 0)])
def test_compare_fail(either: Run, limit: str, status: int) -> None:
    either("def test_one(): packed([5, 2])", "rnncost_save=main")
    result = either("def test_one(): packed([5, 3])", "rnncost_compare=main", f"rnncost_compare_fail={limit}")
    assert result.ret == status
    result.assert_outcomes(passed=1)


def test_the_command_line_wins(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nrnncost_top=2\nrnncost_json=ini.json\nrnncost_compare=main\nrnncost_compare_fail=mults:0%"
    )
    result = run(TESTS, "--rnncost-top=1", "--rnncost-json=", "--rnncost-compare=", "--rnncost-save=main")
    assert SUMMARY[2] in result.outlines
    assert SUMMARY[3] not in result.outlines
    assert not any("compared" in line for line in result.outlines)
    assert not (pytester.path / "ini.json").exists()


def test_paths_are_relative_to_where_they_were_written(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrnncost_json=ini.json")
    run(TESTS)
    below = pytester.mkdir("below")
    pytester.path.joinpath("test_it.py").rename(below / "test_it.py")
    pytester.syspathinsert()
    pytester.chdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(below)
        run(None)
        run(None, "--rnncost-json=cli.json", "--rnncost-save=main")
    assert {path.relative_to(pytester.path) for path in pytester.path.rglob("*.json")} == {
        Path("ini.json"),
        Path("below/cli.json"),
        Path(".rnncost/main.json"),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rnncost-top=x"], "--rnncost-top: 'x' is not a number of tests; give one such as 10, or 0 for all"),
        (["--rnncost-top=-1"], "--rnncost-top: '-1' is not a number of tests; *"),
        (["--rnncost-save=a/b"], "--rnncost-save: 'a/b' is not the name of a baseline; give one such as main, *"),
        (["--rnncost-save=.."], "--rnncost-save: '..' is not the name of a baseline; *"),
        (["--rnncost-compare=main.json"], "--rnncost-compare: 'main.json' is not the name of a baseline; *"),
        (["--rnncost-compare-fail=mults:0%"], "--rnncost-compare-fail needs a baseline: --rnncost-compare NAME"),
        (["--rnncost-compare=main", "--rnncost-compare-fail=mults"], "--rnncost-compare-fail: 'mults' is not METRIC:*"),
        (["--rnncost-json=none/out.json"], "--rnncost-json: there is no folder *none"),
    ],
)
def test_options_that_cannot_be(run: Run, options: list[str], message: str) -> None:
    result = run(TESTS, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_the_plugin_can_be_left_out(run: Run) -> None:
    assert run(TESTS, "-p", "no:rnncost").ret == 0
    result = run(TESTS, "-p", "no:rnncost", "--rnncost")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_summary_shortens_long_names_in_the_middle(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "_".join(["test", *["very"] * 20, "long"])
    monkeypatch.setenv("COLUMNS", "60")
    lines = run(f"def {name}(): packed()\n", "--rnncost").outlines
    assert "      420   30.0 %    0.0 %  test_it.py::t...very_very_long" in lines
    assert max(len(line) for line in lines if not line.startswith(("platform", "rootdir", "plugins"))) <= 60


def test_a_summary_of_nothing(run: Run) -> None:
    assert "No test ran a recurrent layer." in run("def test_one(): pass", "--rnncost").outlines


def test_uncounted_work_is_named_in_the_summary(run: Run) -> None:
    result = run(
        "def test_one(): scripted(), packed()",
        "--rnncost",
        "-W",
        "ignore::DeprecationWarning",
        "-W",
        "error::UserWarning",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["     420*   30.0 %    0.0 %  test_it.py::test_one", "[*] PARTIAL: recurrent work*", "  rnn (LSTM): *"]
    )


def test_nothing_is_written_where_tests_are_only_collected(run: Run, pytester: pytest.Pytester) -> None:
    result = run(TESTS, "--rnncost", "--rnncost-save=main", "--rnncost-json=out.json", "--collect-only")
    assert not list(pytester.path.rglob("*.json"))
    assert not any("rnncost:" in line for line in result.outlines)
