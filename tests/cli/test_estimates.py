"""Estimates and the whole model on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import rnncost
from rnncost.cli.main import main

VERSES = Path(__file__).parents[1] / "data" / "kjv_verse_lengths.txt"
MODEL = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.rnn = nn.LSTM(16, 32, 2, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(64)
        self.score = nn.Linear(64, 50)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.score(self.norm(states))
"""
BATCHES = "batches = [(torch.randint(50, (4, 9)), torch.tensor([9, 3, 2, 1]))]\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tagger.py"
    path.write_text(MODEL + "model = Tagger()\n" + BATCHES)
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)], catch_exceptions=False)


def document(*arguments: str | Path) -> dict[str, object]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    loaded: dict[str, object] = json.loads(result.stdout)
    return loaded


@pytest.mark.parametrize("backward", [False, True])
def test_a_layer_on_a_whole_data_set(backward: bool) -> None:
    found = document("lstm:12x64x2:bi", "--lengths-file", VERSES, "--batch-size", "64", *["--backward"] * backward)
    lengths = [int(line) for line in VERSES.read_text().split()]
    expected = rnncost.estimate("lstm:12x64x2:bi", lengths, batch_size=64, backward=backward)
    totals = found["totals"]
    assert isinstance(totals, dict)
    assert totals["executed"]["mults"] == expected.executed.mults
    # Per row 137,216 MACs, as in the example of the README.
    assert totals["forward"]["executed"]["macs"] == 789_634 * 137_216


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_a_model_is_not_run(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "model.py"
    path.write_text(
        MODEL.replace("def forward(self, words, lengths):", "def forward(self, words, lengths):\n        1 / 0")
    )
    result = run(f"{path}:Tagger", "--lengths", "9,3,2,1", "--layout", layout)
    assert result.exit_code == 0, result.stderr
    assert f"{15 if layout == 'packed' else 36} rows executed of 36 padded" in result.stdout
    assert "Estimated, nothing was run" in result.stdout


def test_an_estimate_equals_the_run(model: Path) -> None:
    ran, estimated = document(model), document(model, "--lengths", "9,3,2,1")
    assert ran["totals"] == estimated["totals"]


def test_limits_hold_for_estimates() -> None:
    assert run("lstm:3x4", "--lengths", "9,8,6,4,3,2", "--min-saved", "40%").exit_code == 0
    assert run("lstm:3x4", "--lengths", "9,8,6,4,3,2", "--min-saved", "41%").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lstm:3x4", "--lengths", "9,0"], "--lengths: 0 at position 2 is below 1"),
        (["lstm:3", "--lengths", "9"], "'3' in 'lstm:3' is not INPUTxHIDDEN"),
        (["lstm:3x4"], "give --lengths"),
        (["lstm:3x4", "--lengths", "9", "--lengths-file", str(VERSES)], "not both"),
        (["lstm:3x4", "--lengths", "9", "--check"], "run the model"),
        (["model.py", "--batch-size", "3"], "belong to an estimate"),
        (["lstm:3x4", "--lengths", "9", "--batch-size", "0"], "--batch-size"),
    ],
)
def test_what_does_not_go_together(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_without_batches_the_way_out_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    assert "or give --lengths for an estimate" in run(f"{path}:Tagger").stderr


def test_the_whole_model(model: Path) -> None:
    found = document(model, "--whole-model")
    whole = found["whole_models"]
    assert isinstance(whole, list)
    [entry] = whole
    # Per row: layer 0 reads 16, layer 1 reads 64; 2 directions of 128 gates. The linear layer
    # runs on 36 padded rows; fvcore charges the layer norm 5 a value.
    recurrent = 15 * 2 * 128 * ((16 + 32) + (64 + 32))
    assert entry["recurrent_macs"] == recurrent == 552_960
    assert entry["total_macs"] == recurrent + 36 * 64 * 50 + 36 * 64 * 5
    assert entry["counter"] == "fvcore"
    layers = {each["name"]: (each["rows"], each["real_rows"], each["macs"]) for each in entry["position_wise"]}
    assert layers == {"norm": (36, 15, 0), "score": (36, 15, 36 * 64 * 50)}
    text = " ".join(run(model, "--whole-model").stdout.split())
    assert "recurrent layers are 81.4 % of 679,680 MACs (fvcore)" in text
    assert "score (Linear) ran on 36 padded rows, 15 of them real" in text


def test_a_model_that_cannot_be_traced_is_counted_by_torch(tmp_path: Path) -> None:
    # fvcore cannot pass keyword arguments.
    path = tmp_path / "model.py"
    keywords = "batches = [{'words': torch.randint(50, (4, 9)), 'lengths': torch.tensor([9, 3, 2, 1])}]\n"
    path.write_text(MODEL + "model = Tagger()\n" + keywords)
    found = document(path, "--whole-model")
    whole = found["whole_models"]
    assert isinstance(whole, list)
    [entry] = whole
    assert entry["counter"] == "FlopCounterMode"
    assert entry["reason"]
    assert entry["total_macs"] == entry["recurrent_macs"] + 36 * 64 * 50
