"""What the README shows is what a person gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rnncost.cli.main import main
from rnncost.pytest_plugin import OPTIONS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_table_is_the_output_of_the_command_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = re.search(r"<!-- run -->\n```sh\n.* && rnncost (.*)\n```", README)
    assert command is not None
    output = CliRunner().invoke(main, command[1].split(), catch_exceptions=False).stdout
    table = README.split("```\n")[1]
    assert "4,274 rows executed" in table
    assert output.startswith(table)


def test_the_batch_explained_is_the_output_of_the_command_shown() -> None:
    output = CliRunner().invoke(main, ["lengths", "9,8,6,4,3,2"]).stdout
    picture = next(block for block in README.split("```\n") if block.startswith("length  steps"))
    assert picture in output


def test_the_test_file_runs_and_fails_as_shown_when_padding_comes_back(pytester: pytest.Pytester) -> None:
    found = re.search(r"<!-- test file -->\n```python\n(.*?)```.*?<!-- failure -->\n```\n(.*?)```", README, re.DOTALL)
    assert found is not None
    source, failure = found.groups()
    options = ("--strict-markers", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:asyncio")
    pytester.makepyfile(test_tagger=source)
    pytester.runpytest(*options).assert_outcomes(passed=2)
    pytester.makepyfile(test_tagger=source.replace("self.rnn(packed)[0].data", "self.rnn(x)[0]"))
    padded = pytester.runpytest(*options)
    padded.assert_outcomes(failed=2)
    assert failure in padded.stdout.str()


def test_the_options_of_the_plugin_are_in_the_table() -> None:
    for name, _, _ in OPTIONS:
        assert f"`--{name.replace('_', '-')}" in README


def test_the_table_of_peers_is_that_of_the_report() -> None:
    def cells(line: str) -> list[str]:
        return [cell.strip() for cell in line.strip("|").split("|")]

    report = [cells(line) for line in (ROOT / "reports" / "peers.md").read_text().splitlines() if line.startswith("|")]
    verdicts = {row[0]: dict(zip(report[0], row, strict=True)) for row in report if len(row) == len(report[0])}
    lines = [cells(line) for line in README.splitlines() if line.startswith("|")]
    start = next(index for index, line in enumerate(lines) if line[0] == "tool")
    shown = [line for line in lines[start + 2 : start + 13] if line[0] in verdicts]
    assert len(shown) == 11
    for row in shown:
        assert row == [verdicts[row[0]][column] for column in lines[start]]
