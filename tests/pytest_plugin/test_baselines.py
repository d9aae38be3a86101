"""Baselines: what is saved, and what a comparison says of regressions, new, vanished and other tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rnncost.plugin.baseline import load_baseline
from tests.pytest_plugin.conftest import Run

ACCEPTED = "Growth that is meant is accepted by `pytest --rnncost-save main`, and committing .rnncost/main.json."
TWO = "def test_b(): packed([5, 2])\n\ndef test_a(): padded()\n"
SAVED = """\
{
 "schema_version": 1,
 "tests": {
  "test_it.py::test_a": {
   "layers": [
    {
     "name": "rnn",
     "spec": "LSTM 2x3",
     "calls": 1,
     "backward_calls": 0,
     "sequences": 2,
     "activations": 150,
     "rows": {"executed": 10, "padded": 10, "packed": null},
     "macs": {"executed": 600, "padded": 600, "packed": null},
     "mults": {"executed": 690, "padded": 690, "packed": null},
     "adds": {"executed": 750, "padded": 750, "packed": null}
    }
   ],
   "uncounted": []
  },
  "test_it.py::test_b": {
   "layers": [
    {
     "name": "rnn",
     "spec": "LSTM 2x3",
     "calls": 1,
     "backward_calls": 0,
     "sequences": 2,
     "activations": 105,
     "rows": {"executed": 7, "padded": 10, "packed": 7},
     "macs": {"executed": 420, "padded": 600, "packed": 420},
     "mults": {"executed": 483, "padded": 690, "packed": 483},
     "adds": {"executed": 525, "padded": 750, "packed": 525}
    }
   ],
   "uncounted": []
  }
 }
}
"""


@pytest.fixture
def saved(pytester: pytest.Pytester) -> Path:
    return pytester.path / ".rnncost" / "main.json"


def names(saved: Path) -> list[str]:
    return [name.partition("::")[2] for name in json.loads(saved.read_text())["tests"]]


def test_a_baseline_is_readable_and_holds_nothing_but_figures(run: Run, saved: Path) -> None:
    run(TWO + "def test_none(): pass\n", "--rnncost-save=main")
    assert saved.read_text() == SAVED


def test_a_regression_fails_the_run_and_names_test_layer_and_figures(run: Run, saved: Path) -> None:
    run(TWO, "--rnncost-save=main")
    result = run(TWO.replace("[5, 2]", "[5, 3]"), "--rnncost-compare=main")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2)
    start = next(number for number, line in enumerate(result.outlines) if "rnncost: baseline" in line)
    assert result.outlines[start + 1 : -1] == [
        "2 tests compared with .rnncost/main.json, limit mults:0%: 1 grew beyond the limit",
        "REGRESSION test_it.py::test_b",
        "  483 -> 552 mults (+14.3 %); layers: 1 changed.",
        "  in total: 483 -> 552 mults (+14.3 %), limit 0%",
        "  rnn (LSTM 2x3): 483 -> 552 mults (+14.3 %), limit 0%",
        ACCEPTED,
    ]
    assert saved.read_text() == SAVED


def test_growth_is_told_though_the_same_run_saves_it(run: Run, saved: Path) -> None:
    run(TWO, "--rnncost-save=main")
    result = run(TWO.replace("[5, 2]", "[5, 3]"), "--rnncost-compare=main", "--rnncost-save=main")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.outlines[-3:-1] == [
        "Growth that is meant is accepted by committing .rnncost/main.json, which this run saves.",
        "Saved .rnncost/main.json: 2 tests, 2 of this run (0 new, 1 changed).",
    ]
    other = run(TWO.replace("[5, 2]", "[5, 4]"), "--rnncost-compare=main", "--rnncost-save=other")
    assert ACCEPTED in other.outlines


def test_padding_that_comes_back_is_a_regression_in_waste_too(run: Run) -> None:
    run("def test_one(): packed()", "--rnncost-save=main")
    result = run("def test_one(): padded()", "--rnncost-compare=main", "--rnncost-compare-fail=wasted:0%")
    assert "  rnn (LSTM 2x3): 0 -> ? wasted mults (cannot be told), limit 0%" in result.outlines
    assert result.ret == 1


def test_cheaper_new_vanished_failed_and_skipped_tests(run: Run) -> None:
    run("".join(f"def test_{name}(): packed([5, 2])\n" for name in "abcdefg"), "--rnncost-save=main")
    result = run(
        "def test_a(): packed([5, 1])\n"
        "def test_b(): assert packed([9, 9]) is None\n"
        "@pytest.mark.skip\ndef test_c(): packed()\n"
        "@pytest.mark.xfail\ndef test_d(): assert packed([9, 9]) is None\n"
        "def test_f(): pass\n"
        "def test_g(): packed([5, 2])\n"
        "def test_new(): packed([5, 2])\n",
        "--rnncost-compare=main",
        "--deselect=test_it.py::test_g",
    )
    start = next(number for number, line in enumerate(result.outlines) if "rnncost: baseline" in line)
    end = next(number for number, line in enumerate(result.outlines) if "short test summary" in line)
    assert result.outlines[start + 1 : end] == [
        "2 tests compared with .rnncost/main.json, limit mults:0%: 1 grew beyond the limit, "
        "1 cheaper (save to keep it so)",
        "REGRESSION test_it.py::test_f",
        "  483 -> 0 mults (-100.0 %); layers: 1 removed.",
        "  no recurrent layer ran in the current report, so there is nothing to hold to a limit",
        ACCEPTED,
        "New, and held to nothing until they are saved: 1 test",
        "  test_it.py::test_new: 483 mults",
        "Vanished, in the baseline only: 1 test",
        "  test_it.py::test_e",
        "Not compared, since they did not pass: 3 tests",
        "  test_it.py::test_b",
        "  test_it.py::test_c",
        "  test_it.py::test_d",
        "1 test of the baseline did not run.",
    ]


@pytest.mark.parametrize(
    "selection",
    [
        ["-k", "test_a"],
        ["test_it.py::test_a"],
        ["--deselect=test_it.py::test_b"],
        ["-x"],
        ["--lf"],
        ["-k", "nothing"],
        [],
    ],
)
def test_a_selection_disturbs_neither_comparison_nor_baseline(
    run: Run, pytester: pytest.Pytester, saved: Path, selection: list[str]
) -> None:
    pytester.makepyfile(test_other="from model import *\ndef test_other(): packed([4, 4])\n")
    run(TWO, "--rnncost-save=main", "-p", "cacheprovider")
    before = saved.read_text()
    for option in ("--rnncost-compare=main", "--rnncost-save=main"):
        result = run(TWO, option, "-p", "cacheprovider", *selection)
        assert result.ret == (pytest.ExitCode.NO_TESTS_COLLECTED if "nothing" in selection else pytest.ExitCode.OK)
        assert not any("Vanished" in line or "New" in line or "broke off" in line for line in result.outlines)
    assert saved.read_text() == before


@pytest.mark.parametrize("gone", ["test", "file"])
def test_saving_drops_what_has_vanished_and_keeps_what_did_not_run(
    run: Run, pytester: pytest.Pytester, saved: Path, gone: str
) -> None:
    other = pytester.makepyfile(test_other="from model import *\ndef test_x(): packed()\ndef test_y(): packed()\n")
    run(TWO, "--rnncost-save=main")
    assert names(saved) == ["test_a", "test_b", "test_x", "test_y"]
    if gone == "file":
        other.unlink()
    else:
        other.write_text("from model import *\ndef test_x(): packed()\n")
    run(None, "--rnncost-save=main", "test_it.py")
    assert names(saved) == ["test_a", "test_b", "test_x", "test_y"]
    result = run(None, "--rnncost-save=main", "-k", "test_a or test_b")
    assert names(saved) == ["test_a", "test_b", *(["test_x"] if gone == "test" else [])]
    line = next(line for line in result.outlines if line.startswith("Saved"))
    assert line == (
        "Saved .rnncost/main.json: 3 tests, 2 of this run (0 new, 0 changed), 1 as they were, 1 removed."
        if gone == "test"
        else "Saved .rnncost/main.json: 2 tests, 2 of this run (0 new, 0 changed), 2 removed."
    )


def test_tests_that_do_not_pass_are_not_saved(run: Run, saved: Path) -> None:
    run("def test_a(): packed([5, 2])\ndef test_b(): packed([5, 2])\n", "--rnncost-save=main")
    before = saved.read_text()
    result = run(
        "@pytest.fixture\ndef broken():\n    yield\n    raise KeyError\n\n"
        "def test_a(): assert packed([9, 9]) is None\n"
        "def test_b(broken): packed([9, 9])\n"
        "@pytest.mark.limit_macs(1)\ndef test_c(): packed([5, 2])\n"
        "@pytest.mark.xfail\ndef test_d(): packed([5, 2])\n",
        "--rnncost-save=main",
    )
    assert saved.read_text() == before
    assert "WARNING: not saved, since they did not pass: 4 tests" in result.outlines


def test_a_flaky_test_is_saved_as_it_passed(run: Run, saved: Path) -> None:
    run("def test_a(): packed([5, 2])", "--rnncost-save=main")
    before = saved.read_text()
    run(
        "tries = []\n@pytest.mark.flaky(reruns=2)\ndef test_a():\n    tries.append(1)\n    packed([5, 2])\n"
        "    if len(tries) < 3:\n        packed([9, 9])\n        raise KeyError\n",
        "--rnncost-save=main",
    )
    assert saved.read_text() == before


@pytest.mark.parametrize("options", [[], ["-n1"]])
def test_tests_of_a_class_that_cannot_be_collected_have_not_vanished(run: Run, saved: Path, options: list[str]) -> None:
    source = "def test_a(): packed()\nclass TestB:\n    {}\n    def test_b(self): packed()\n"
    run(source.format("pass"), "--rnncost-save=main")
    before = saved.read_text()
    result = run(
        source.format("@pytest.mark.limit_macs('x')"),
        "--rnncost-save=main", "--rnncost-compare=main", "--continue-on-collection-errors", *options,
    )  # fmt: skip
    result.assert_outcomes(passed=1, errors=1)
    assert "1 test of the baseline did not run." in result.outlines
    assert saved.read_text() == before


@pytest.mark.parametrize("options", [["-x"], ["--maxfail=1"], ["-x", "-n1"]])
def test_a_run_that_stops_at_a_failure_breaks_off(run: Run, saved: Path, options: list[str]) -> None:
    result = run(
        "def test_a(): packed()\ndef test_b(): assert 0\ndef test_c(): packed()\n", "--rnncost-save=main", *options
    )
    assert "WARNING: the run broke off, so .rnncost/main.json was left as it was." in result.outlines
    assert not saved.exists()


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("pytest.exit('enough')", pytest.ExitCode.INTERRUPTED),
        ("pytest.exit('enough', returncode=0)", pytest.ExitCode.OK),
        ("raise KeyboardInterrupt", pytest.ExitCode.INTERRUPTED),
    ],
)
def test_a_run_that_breaks_off_saves_nothing(
    run: Run, saved: Path, pytester: pytest.Pytester, end: str, status: pytest.ExitCode
) -> None:
    source = f"def test_a(): packed()\ndef test_end(): {end}\n"
    pytester.makepyfile(test_it=f"from model import *\nimport pytest\n{source}")
    result = pytester.runpytest_subprocess("--rnncost-save=main", "-p", "no:randomly")
    assert result.ret == status
    assert "WARNING: the run broke off, so .rnncost/main.json was left as it was." in result.outlines
    assert not saved.exists()


def test_nothing_is_saved_where_nothing_ran(run: Run, saved: Path) -> None:
    result = run("def test_a(): pass", "--rnncost-save=main")
    assert not saved.exists()
    result.stdout.fnmatch_lines(["WARNING: no test that passed ran a recurrent layer, so .rnncost/main.json was not*"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "broken JSON at line 1 column 2: *"),
        ("<<<<<<< ours\n{}", "broken JSON at line 1 column 1: *"),
        ('{"schema_version": 1, "layers": []}', "not a baseline of rnncost's pytest plugin: no `tests` at *"),
        ('{"schema_version": 2, "tests": {}}', "schema_version 2; this rnncost reads version 1"),
        ('{"schema_version": 1, "tests": {"a": {"layers": [{"name": 1}]}}}', "Expected `str`, got `int` - at *"),
        (SAVED.replace('"calls": 1', '"calls": -1'), "Expected `int` >= 0 - at *, under `tests`"),
    ],
)
def test_a_file_that_is_no_baseline(run: Run, saved: Path, content: str, message: str) -> None:
    saved.parent.mkdir()
    saved.write_text(content)
    result = run(TWO, "--rnncost-compare=main")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --rnncost-compare: {saved}: {message}"])
    again = run(TWO, "--rnncost-save=main")
    again.stdout.fnmatch_lines([f"WARNING: replaced by the tests of this run alone: {saved}: {message}"])
    assert saved.read_text() == SAVED


@pytest.mark.parametrize("way", ["folder", "file", "name"])
def test_a_file_that_cannot_be_written_fails_the_run(run: Run, saved: Path, way: str) -> None:
    if way == "folder":
        saved.parent.write_text("a file where the folder belongs")
    elif way == "file":
        saved.mkdir(parents=True)
    name = "x" * 300 if way == "name" else "main"
    result = run(TWO, f"--rnncost-save={name}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"ERROR: .rnncost/{name}.json was not written: *"])
    assert not any(line.startswith("Saved") for line in result.outlines)


def test_many_regressions_fit_on_a_screen_and_all_the_first_are_named(run: Run) -> None:
    many = "@pytest.mark.parametrize('n', range(12))\ndef test_n(n): packed({})\n"
    run(many.format("[5, 2]"), "--rnncost-save=main")
    result = run(many.format("[5, 3]"), "--rnncost-compare=main", "-q")
    start = next(number for number, line in enumerate(result.outlines) if "rnncost: baseline" in line)
    own = result.outlines[start + 1 : -1]
    assert own[0] == "12 tests compared with .rnncost/main.json, limit mults:0%: 12 grew beyond the limit"
    assert own[-4:] == [
        "REGRESSION test_it.py::test_n[6]: 483 -> 552 mults (+14.3 %); layers: 1 changed.",
        "REGRESSION test_it.py::test_n[7]: 483 -> 552 mults (+14.3 %); layers: 1 changed.",
        "  and 2 more",
        ACCEPTED,
    ]
    assert len(own) == 1 + 3 * 4 + 7 + 2


TRAINED = "def test_one(): packed().data.sum().backward()\n"
LOST = ["Without backward passes now, so that forward alone was compared: 1 test", "  test_it.py::test_one"]


def test_a_lost_backward_hides_no_growth_of_the_forward(run: Run, saved: Path) -> None:
    run(TRAINED, "--rnncost-save=main")
    work = load_baseline(saved)["test_it.py::test_one"]
    assert (work.forward_total.mults, work.forward_total.backward_calls, work.total.backward_calls) == (483, 0, 1)
    assert work.total.mults > 2 * 483
    kept = run("def test_one(): packed()", "--rnncost-compare=main")
    kept.assert_outcomes(passed=1)
    assert kept.ret == 0
    start = "1 test compared with .rnncost/main.json, limit mults:0%: none grew beyond the limit"
    assert [line for line in kept.outlines if line in (start, *LOST)] == [start, *LOST]
    doubled = run("def test_one(): packed(), packed()", "--rnncost-compare=main")
    assert doubled.ret == 1
    assert "  483 -> 966 forward mults (+100.0 %); layers: 1 added, 1 same." in doubled.outlines


def test_what_grew_most_comes_first(run: Run) -> None:
    some = "@pytest.mark.parametrize('n', range(5))\ndef test_n(n): packed([{}, 2])\n"
    run(some.format("5"), "--rnncost-save=main")
    result = run(some.format("5 + n"), "--rnncost-compare=main")
    grown = [line.split("[")[1][0] for line in result.outlines if line.startswith("REGRESSION")]
    assert grown == ["4", "3", "2", "1"]


def test_a_path_is_said_as_seen_from_where_pytest_was_called(
    run: Run, pytester: pytest.Pytester, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]")
    below = pytester.mkdir("below")
    monkeypatch.chdir(below)
    result = run(None, "--rnncost-compare=main")
    result.stdout.fnmatch_lines([f"WARNING: nothing was compared, since there is no {saved}; *"])


def test_work_that_is_newly_uncounted_is_a_regression(run: Run) -> None:
    run("def test_a(): packed()\ndef test_b(): scripted(), packed()", "--rnncost-save=main", "-W", "ignore")
    result = run(
        "def test_a(): scripted(), packed()\ndef test_b(): scripted(), packed()",
        "--rnncost-compare=main",
        "-W",
        "ignore",
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "2 tests compared with .rnncost/main.json, limit mults:0%: 1 grew beyond the limit",
            "REGRESSION test_it.py::test_a",
            "  cannot be guaranteed, since work is newly uncounted: rnn (LSTM) is not counted: *",
        ]
    )
