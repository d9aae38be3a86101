"""The command line as a person uses it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import rnncost
from rnncost.cli.main import main
from rnncost.reporting.renderers.text import TextRenderer
from tests.reporting.reports import SCRIPTED, packed_layer, padded_layer, report

# For a process whose working directory is another one.
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(rnncost.__file__).parents[1])}
VOWELS = Path(rnncost.__file__).parent / "examples" / "vowels.py"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_example_on_real_input() -> None:
    result = run("report", VOWELS, "--format", "json")
    assert result.exit_code == 0
    layer = json.loads(result.stdout)["layers"][0]
    forward = layer["calls"][0]["forward"]
    assert (forward["calls"], forward["rows"], forward["padded_rows"]) == (9, 4_274, 5_880)
    counts = layer["counts"]["executed"]
    # Per row 137,216 MACs, 137,984 mults, 138,496 adds, 1,280 activations.
    assert counts["macs"] == 4_274 * 137_216 == 586_461_184
    assert counts["mults"] == 4_274 * 137_984
    assert counts["adds"] == 4_274 * 138_496
    assert counts["activations"] == 4_274 * 1_280
    assert layer["counts"]["saved_fraction"] == 1_606 / 5_880


def test_the_example_as_a_table() -> None:
    result = run("report", VOWELS)
    first = result.stdout.splitlines()[0]
    assert first == "27.3 % saved: 4,274 rows executed of 5,880 padded; 586,461,184 MACs executed."
    assert result.stderr == ""


def test_reports_are_saved_shown_and_merged(tmp_path: Path) -> None:
    saved, text, total = tmp_path / "a.json", tmp_path / "a.txt", tmp_path / "all.json"
    result = run("report", VOWELS, "-o", saved, "-o", text)
    assert result.exit_code == 0
    assert result.stdout == text.read_text()
    assert result.stderr.splitlines() == [f"wrote {saved}", f"wrote {text}"]
    assert run("show", saved).stdout == result.stdout
    assert run("show", saved, "--format", "json").stdout == saved.read_text()
    assert run("merge", saved, saved, "-o", total).exit_code == 0
    merged = rnncost.CostReport.load(total)
    assert merged.layers[0].tally.rows == 2 * 4_274


@pytest.mark.parametrize("name", ["out.xml", "missing/out.json"])
def test_a_bad_output_path_is_refused_before_anything_runs(tmp_path: Path, name: str) -> None:
    model = tmp_path / "model.py"
    model.write_text("raise SystemError('ran')")
    result = run("report", model, "-o", tmp_path / name)
    assert result.exit_code == 2
    assert name in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-wasted", "0%"], None),
        (["--min-saved", "27.3%", "--max-macs", "586461184"], None),
        (["--min-saved", "28%"], "27.3 % of the padded mults saved, limit 28.0 %"),
        (["--max-macs", "586461183"], "586,461,184 MACs executed, limit 586,461,183"),
    ],
)
def test_limits_decide_the_exit_status(options: list[str], message: str | None) -> None:
    result = run("report", VOWELS, *options)
    assert result.exit_code == (0 if message is None else 1)
    assert "586,461,184 MACs executed." in result.stdout
    if message is None:
        assert result.stderr == ""
    else:
        assert message in result.stderr
        assert "rnn (LSTM 12x64x2 bi)" in result.stderr


@pytest.mark.parametrize(
    "options", [["--min-saved", "28"], ["--max-macs", "lots"], ["--max-wasted", "-1%"], ["--max-macs", "1e99999999"]]
)
def test_limits_that_cannot_be_read(options: list[str]) -> None:
    result = run("report", VOWELS, *options)
    assert result.exit_code == 2
    assert "write one like" in result.stderr


def test_a_file_that_cannot_be_written_costs_no_report(tmp_path: Path) -> None:
    link = tmp_path / "dangling.json"
    link.symlink_to(tmp_path / "missing" / "out.json")
    result = run("report", VOWELS, "-o", link)
    assert result.exit_code == 2
    assert f"rnncost: {link}: cannot be written: No such file or directory" in result.stderr
    assert "4,274 rows executed" in result.stdout


def test_the_report_proves_itself_unless_told_not_to() -> None:
    text = " ".join(run("report", VOWELS).stdout.split())
    assert "Verified on 1 of 9 kernel calls" in text
    assert "of every recurrent kernel that ran meanwhile (74,371,072)" in text
    assert "erified" not in run("report", VOWELS, "--no-verify").stdout


def test_backward_and_check() -> None:
    result = run("report", VOWELS, "--backward", "--check", "--format", "json")
    document = json.loads(result.stdout)
    layer = document["layers"][0]
    backward = layer["backward_calls"][0]["backward"]
    assert (backward["calls"], backward["passes"], backward["rows"]) == (9, 9, 4_274)
    assert layer["counts"]["forward"]["executed"]["macs"] == 586_461_184
    assert layer["counts"]["backward"]["executed"]["macs"] > 586_461_184
    assert layer["counts"]["executed"]["macs"] == sum(
        layer["counts"][part]["executed"]["macs"] for part in ("forward", "backward")
    )
    [checked] = document["contaminations"]
    assert checked["name"] == "rnn"
    assert any(each["sequences"] for each in checked["differences"] if each["what"] == "output")
    text = run("report", VOWELS, "--backward", "--check").stdout
    assert "backward executed" in text
    assert "output, layer 1, reverse" in text


def test_time_leaves_the_verified_first_batch_out(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\nmodel = torch.nn.GRU(3, 4)\nbatches = [torch.zeros(5, 2, 3, requires_grad=True)] * 3\n"
    )
    layer = json.loads(run("report", model, "--time", "--backward", "--format", "json").stdout)["layers"][0]
    time = layer["run_time"]
    assert (layer["calls"][0]["forward"]["calls"], time["forward_calls"], time["backward_calls"]) == (3, 2, 2)
    assert (time["device"], time["verified_calls"]) == ("cpu", 0)
    whole = run("report", model, "--time", "--no-verify")
    assert "time in this run, cpu" in whole.stdout
    assert "Not timed" not in whole.stdout
    model.write_text("import torch\nmodel = torch.nn.GRU(3, 4)\nbatches = [torch.zeros(5, 2, 3)]\n")
    assert "Timed while every kernel was verified" in run("report", model, "--time").stdout
    assert run("report", model, "--time", "--lengths", "3,2").exit_code == 2


def test_warnings_are_lines_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "scripted.py"
    path.write_text(
        "import torch, warnings\nfrom torch import nn\nwarnings.simplefilter('ignore', DeprecationWarning)\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.rnn = nn.LSTM(2, 3)\n"
        "    def forward(self, x):\n        return self.rnn(x)[0]\n"
        "model = torch.jit.script(Net())\nbatches = [torch.zeros(4, 1, 2)]\n"
    )
    done = subprocess.run([sys.executable, "-m", "rnncost", "report", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "rnncost: warning: rnn (LSTM) is not counted" in done.stderr
    assert "/click/" not in done.stderr
    assert done.stdout.startswith("PARTIAL")


def test_a_terminal_without_unicode_gets_the_report_all_the_same(tmp_path: Path) -> None:
    report(packed_layer("späth", [5, 2])).save(tmp_path / "a.json")
    command = [sys.executable, "-m", "rnncost", "show", str(tmp_path / "a.json")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "sp\\xe4th" in done.stdout
    assert "-----" in done.stdout


@pytest.mark.parametrize("form", ["html", "markdown", "csv", "json"])
def test_files_on_standard_output_are_utf_8_whatever_the_locale(form: str, tmp_path: Path) -> None:
    saved, grown = tmp_path / "a.json", tmp_path / "b.json"
    report(packed_layer("späth", [5, 2])).save(saved)
    report(packed_layer("späth", [5, 2, 1])).save(grown)
    for command in (["show", saved], ["compare", saved, grown, "--fail-on", "none"]):
        if command[0] == "compare" and form == "csv":
            continue
        done = subprocess.run(
            [sys.executable, "-m", "rnncost", *map(str, command), "--format", form],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        )
        assert done.returncode == 0, done.stderr
        assert ("sp\\u00e4th" if form == "json" else "späth") in done.stdout.decode("utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux alone has a disk that is always full")
@pytest.mark.parametrize(
    "command", ["show a.json", "show a.json --format csv", "compare a.json a.json", "schema", "lengths 9,3"]
)
def test_a_standard_output_that_is_full_or_closed(command: str, tmp_path: Path) -> None:
    report(packed_layer("a", [5, 2])).save(tmp_path / "a.json")
    for target, status, said in ((">/dev/full", 2, "cannot be written: No space left on device\n"), (">&-", 0, "")):
        line = f"{shlex.quote(sys.executable)} -m rnncost {command} {target}"
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=_ENVIRONMENT)
        assert done.returncode == status
        assert done.stderr == (f"rnncost: standard output: {said}" if said else "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--chart", "occupancy"], "--chart belongs to a picture"),
        (["--chart", "nix"], "nor is there a chart 'nix' among operations, occupancy"),
        (["--chart", "occupancy", "-o", "a.md"], "--chart belongs to a picture"),
        (["-o", "a.png", "--chart", "nix"], "there is no chart 'nix'"),
    ],
)
def test_a_chart_needs_a_picture(options: list[str], message: str, tmp_path: Path) -> None:
    report(packed_layer("a", [5, 2])).save(tmp_path / "a.json")
    result = run("show", tmp_path / "a.json", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_broken_report_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"schema_version": 1')
    for command in ("show", "merge"):
        result = run(command, bad)
        assert result.exit_code == 2
        assert f"rnncost: {bad}: broken JSON at line 1 column 21" in result.stderr
        assert result.stdout == ""
    assert run("show", tmp_path / "none.json").exit_code == 2


def test_show_says_what_is_missing(tmp_path: Path) -> None:
    partial = report(packed_layer("a", [5, 2]), padded_layer("b", 2, 2), uncounted=(SCRIPTED,))
    partial.save(tmp_path / "partial.json")
    assert run("show", tmp_path / "partial.json").stdout == TextRenderer().render(partial)


def test_lengths() -> None:
    text = run("lengths", "9,8,6,4,3,2").stdout
    words = " ".join(text.split())
    assert "of the 54 cells of the padded rectangle, 32 are real" in words
    assert "6 6 5 4 3 3 2 2 1" in text
    for row in ("9 1 9 8", "8 1 8 7", "6 1 6 5", "4 1 4 3", "3 1 3 2", "2 1 2 1"):
        assert row in words
    assert "packed 6 32 26 padded 6 54 48 saved 6 22 22" in words


@pytest.mark.parametrize(
    ("lengths", "parts"),
    [("4,6,8,5,4,3,7,8", ("the 64 cells", "45 are real")), ("5,2", ("the 10 cells", "7 are real", "2 2 1 1 1"))],
)
def test_more_lengths(lengths: str, parts: tuple[str, ...]) -> None:
    words = " ".join(run("lengths", lengths).stdout.split())
    assert [part for part in parts if part not in words] == []


@pytest.mark.parametrize("content", ["9\n8\n6\n4\n3\n2\n", "9,8,6,4,3,2", "\ufeff9 8 6\r\n4 3 2\r\n"])
def test_lengths_from_a_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text(content)
    assert run("lengths", path).stdout == run("lengths", "9,8,6,4,3,2").stdout


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ("9,0", "0 at position 2 is below 1"),
        ("9,-8", "-8 at position 2 is below 1"),
        ("-1,9", "-1 at position 1 is below 1"),
        ("9,x", "'x' at position 2 is not an integer"),
        ("2.5", "'2.5' at position 1 is not an integer"),
        ("", "no length given"),
        (",", "'' at position 1"),
        ("no-such-file", "neither a file nor lengths"),
        ("no-such-file-2.txt", "neither a file nor lengths"),
        (",".join(["12"] * 200) + ",x", "'x' at position 201"),
    ],
)
def test_bad_lengths(lengths: str, message: str) -> None:
    result = run("lengths", lengths)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_bad_file_of_lengths_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("9\n0\n")
    assert f"rnncost: {path}: 0 at position 2" in run("lengths", path).stderr
    path.write_bytes(b"\xff\xff")
    assert f"rnncost: {path}: cannot be read" in run("lengths", path).stderr


def test_help_lists_every_command() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for command in ("report", "lengths", "show", "merge"):
        assert command in result.stdout
        assert run(command, "--help").exit_code == 0
    assert run("no-such-command").exit_code == 2
    assert run("--version").stdout == f"rnncost, version {rnncost.__version__}\n"
