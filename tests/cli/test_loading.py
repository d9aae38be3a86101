"""What a model file may offer, and what is said when it offers something else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rnncost.cli.main import main

PARTS = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 3)
    def forward(self, x, scale=1.0):
        return self.rnn(x)[0]

def some_batches():
    return [torch.zeros(5, 2, 2)] * 3
"""


@pytest.fixture
def write(tmp_path: Path) -> object:
    def writing(text: str) -> str:
        path = tmp_path / "net.py"
        path.write_text(PARTS + text)
        return str(path)

    return writing


def run(target: str) -> Result:
    return CliRunner().invoke(main, ["report", target], catch_exceptions=False)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def build():\n    return Net(), some_batches()", ""),
        ("model = Net()\nbatches = some_batches()", ""),
        ("model = Net\nbatches = some_batches", ""),
        ("def model():\n    return Net()\nbatches = iter(some_batches())", ""),
        ("anything = Net()\nalias = anything\nbatches = some_batches()", ""),
        ("batches = some_batches()", ""),
        ("a, b = Net(), Net()\nbatches = some_batches()", ":b"),
        ("class Other(Net): pass\nbatches = some_batches()", ":Other"),
        ("def make():\n    return Net(), some_batches()", ":make"),
        ("def make():\n    return Net()\nbatches = some_batches()", ":make"),
        ("batches = [(torch.zeros(5, 2, 2), 2.0), {'x': torch.zeros(5, 2, 2)}, [torch.zeros(5, 2, 2)]]", ""),
        ("batches = [pack_sequence([torch.zeros(5, 2)] * 2)] * 3", ""),
        ("batches = torch.utils.data.DataLoader(torch.zeros(15, 2, 2), batch_size=5)", ""),
    ],
)
def test_ways_to_offer_a_model(write: object, text: str, name: str) -> None:
    result = run(write(text) + name)  # type: ignore[operator]
    assert result.exit_code == 0, result.stderr
    assert "30 rows executed of 30 padded" in result.stdout


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "", "no batches to run; define `batches`"),
        ("del Net", "", "no model found; define build()"),
        ("class Other(Net): pass\nbatches = []", "", "2 models found; define build()"),
        (
            "class Other(Net): pass\nbatches = []",
            "",
            "the file offers Net (type), some_batches (function), Other (type)",
        ),
        ("", ":missing", "defines no 'missing'; the file offers Net (type)"),
        ("model = 3\nbatches = []", "", "the model is a int, not a torch.nn.Module"),
        ("def build():\n    return Net()", "", "build() returned a Net, not (model, batches)"),
        ("batches = torch.zeros(5, 2, 2)", "", "batches is a Tensor; it must be an iterable of batches"),
        ("batches = 3", "", "batches is a int"),
        ("batches = [{1: torch.zeros(5, 2, 2)}]", "", "batch 0 is a dict"),
        ("model = lambda size: Net()\nbatches = []", "", "<lambda> cannot be called without arguments: missing"),
        ("def build(size):\n    return Net(), []", "", "build cannot be called without arguments"),
        ("import sys\nsys.exit(0)", "", "the file ended the process with status 0"),
        ("Net.forward = lambda self, x: exit(3)\nbatches = some_batches()", "", "ended the process with status 3"),
        ("batches = [3]", "", "batch 0 is a int; it must be a tensor"),
    ],
)
def test_what_is_missing_or_ambiguous(write: object, text: str, name: str, message: str) -> None:
    result = run(write(text) + name)  # type: ignore[operator]
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_file_that_parses_arguments_sees_its_own(write: object) -> None:
    parse = "import argparse\nbatches = some_batches()\nassert argparse.ArgumentParser().parse_args([]) is not None\n"
    result = run(write(parse + "argparse.ArgumentParser().parse_args()\n"))  # type: ignore[operator]
    assert result.exit_code == 0, result.stderr


def test_workers_that_are_spawned_find_the_file(tmp_path: Path) -> None:
    path = tmp_path / "spawning.py"
    path.write_text(
        PARTS
        + """
class Steps(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return torch.zeros(2, 2)

def build():
    return Net(), torch.utils.data.DataLoader(Steps(), 2, num_workers=1, multiprocessing_context="spawn")
"""
    )
    done = subprocess.run([sys.executable, "-m", "rnncost", "report", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "8 rows executed" in done.stdout


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "there is no such file" in run(str(tmp_path / "none.py")).stderr
    assert "there is no such file" in run(str(tmp_path / "none.py:model")).stderr
    (tmp_path / "model.txt").write_text("")
    assert "not a Python file" in run(str(tmp_path / "model.txt")).stderr


def test_exceptions_of_the_users_code_keep_their_traceback(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(PARTS + "batches = some_batches()\nNet.forward = lambda self, x: 1 / 0\n")
    done = subprocess.run([sys.executable, "-m", "rnncost", "report", str(path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert done.stdout == ""


def test_what_the_file_prints_does_not_mix_with_the_report(write: object) -> None:
    result = run(write("print('hello')\nbatches = some_batches()"))  # type: ignore[operator]
    assert result.stdout.startswith("0.0 % saved")
    assert "hello" in result.stderr


def test_a_file_finds_its_neighbours_and_its_package(tmp_path: Path) -> None:
    package = tmp_path / "outer" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "parts.py").write_text(PARTS)
    (package / "relative.py").write_text("from .parts import Net, some_batches\nmodel, batches = Net(), some_batches()")
    (package / "neighbour.py").write_text("from parts import Net, some_batches\nmodel, batches = Net(), some_batches()")
    for name in ("relative.py", "neighbour.py"):
        done = subprocess.run(
            [sys.executable, "-m", "rnncost", "report", str(package / name)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
