"""``rnncost compare`` and ``rnncost schema`` as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rnncost.cli.main import main
from rnncost.reporting.schema import report_schema
from tests.reporting.reports import packed_layer, padded_layer, report


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    report(packed_layer("rnn", [5, 2])).save(tmp_path / "base.json")
    return tmp_path / "base.json"


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    report(packed_layer("rnn", [6, 2])).save(tmp_path / "grown.json")
    return tmp_path / "grown.json"


def test_equal_reports_pass(base: Path) -> None:
    result = run("compare", base, base)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("No regression, limit mults:0%: 483 -> 483 mults (0.0 %); layers: 1 same.\n")


def test_growth_exits_with_1_and_says_where(base: Path, grown: Path) -> None:
    result = run("compare", base, grown)
    assert result.exit_code == 1
    assert result.stderr == (
        "rnncost: REGRESSION, limit mults:0%: 483 -> 552 mults (+14.3 %); layers: 1 changed.\n"
        "  in total: 483 -> 552 mults (+14.3 %), limit 0%\n"
        "  rnn (LSTM 2x3): 483 -> 552 mults (+14.3 %), limit 0%\n"
    )
    assert "rnn                        changed       7     8" in result.stdout


@pytest.mark.parametrize(
    ("fail_on", "status"),
    [("mults:15%", 0), ("mults:14%", 1), ("macs:60,adds:75", 0), ("macs:60,adds:74", 1), ("none", 0)],
)
def test_the_limit_decides(base: Path, grown: Path, fail_on: str, status: int) -> None:
    assert run("compare", base, grown, "--fail-on", fail_on).exit_code == status


def test_unknown_waste_exits_with_1(tmp_path: Path) -> None:
    report(padded_layer("dec", 2, 4, [4, 1])).save(tmp_path / "known.json")
    report(padded_layer("dec", 2, 4)).save(tmp_path / "unknown.json")
    result = run("compare", tmp_path / "known.json", tmp_path / "unknown.json", "--fail-on", "wasted:50%")
    assert result.exit_code == 1
    assert "153 -> ? wasted mults (cannot be told), limit 50%" in result.stderr


@pytest.mark.parametrize(
    ("form", "start"), [("markdown", "**REGRESSION"), ("json", "{\n"), ("html", "<!DOCTYPE html>")]
)
def test_forms_on_standard_output(base: Path, grown: Path, form: str, start: str) -> None:
    result = run("compare", base, grown, "--format", form)
    assert result.exit_code == 1
    assert result.stdout.startswith(start)


def test_files_by_suffix(base: Path, grown: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"c{suffix}" for suffix in (".txt", ".md", ".json", ".html")]
    result = run("compare", base, grown, *(part for path in paths for part in ("-o", path)))
    assert result.exit_code == 1
    assert result.stderr.startswith("".join(f"wrote {path}\n" for path in paths))
    assert paths[0].read_text() == result.stdout
    assert json.loads(paths[2].read_text())["regressed"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fail-on", "mults"], "rnncost: 'mults' is not METRIC:LIMIT"),
        (["--fail-on", "speed:5%"], "the metrics are mults, adds, macs, flops, rows, activations, wasted"),
        (["-o", "c.csv"], "no format of a comparison has the suffix '.csv'"),
        (["-o", "missing/c.md"], "there is no folder missing"),
        (["--format", "csv"], "'csv' is not one of"),
    ],
)
def test_wrong_usage_exits_with_2(base: Path, arguments: list[str], message: str) -> None:
    result = run("compare", base, base, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_unreadable_reports_exit_with_2(base: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    result = run("compare", base, broken)
    assert result.exit_code == 2
    assert f"rnncost: {broken}: broken JSON at line 1" in result.stderr
    assert run("compare", base, tmp_path / "none.json").exit_code == 2


def test_a_comparison_is_no_report(base: Path, tmp_path: Path) -> None:
    run("compare", base, base, "-o", tmp_path / "c.json")
    result = run("show", tmp_path / "c.json")
    assert result.exit_code == 2
    assert "not an rnncost report" in result.stderr


def test_a_file_that_cannot_be_written_costs_no_comparison(base: Path, tmp_path: Path) -> None:
    link = tmp_path / "dangling.md"
    link.symlink_to(tmp_path / "missing" / "out.md")
    result = run("compare", base, base, "-o", link)
    assert result.exit_code == 2
    assert f"rnncost: {link}: cannot be written: No such file or directory" in result.stderr
    assert result.stdout.startswith("No regression")


def test_the_schema_is_printed_or_written(tmp_path: Path) -> None:
    result = run("schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads(json.dumps(report_schema()))
    written = run("schema", "-o", tmp_path / "schema.json")
    assert (written.exit_code, written.stdout) == (0, "")
    assert written.stderr == f"wrote {tmp_path / 'schema.json'}\n"
    assert (tmp_path / "schema.json").read_text() == result.stdout
    failed = run("schema", "-o", tmp_path / "missing" / "schema.json")
    assert failed.exit_code == 2
    assert "cannot be written" in failed.stderr


def test_the_help_of_the_commands() -> None:
    assert "compare" in run("--help").stdout
    assert "--fail-on METRIC:LIMIT" in run("compare", "--help").stdout
