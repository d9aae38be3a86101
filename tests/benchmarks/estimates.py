"""What an estimate costs: a data set in order, and a model too large for memory.

Run it with ``python -m tests.benchmarks.estimates``; it writes ``reports/estimates.md``.
"""

from __future__ import annotations

import platform
import statistics
from pathlib import Path

import torch
from torch import nn

import rnncost
from rnncost.counting import BatchShape, Tally
from tests.benchmarks.interleave import interleaved, median_ratio

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "reports" / "estimates.md"
BATCH_SIZE = 64


def main() -> None:
    lengths = [int(line) for line in (ROOT / "tests" / "data" / "kjv_verse_lengths.txt").read_text().split()]

    def batch_by_batch() -> Tally:
        batches = (lengths[start : start + BATCH_SIZE] for start in range(0, len(lengths), BATCH_SIZE))
        return sum((Tally.of(BatchShape.from_lengths(batch)) for batch in batches), start=Tally())

    def estimated() -> rnncost.CostReport:
        return rnncost.estimate("lstm:128x256x2:bi", lengths, batch_size=BATCH_SIZE, backward=True)

    with torch.device("meta"):
        large = nn.LSTM(8192, 16384, num_layers=3, bidirectional=True)
    parameters = sum(weight.numel() for weight in large.parameters())
    assert estimated().layers[0].tally == batch_by_batch()
    calls = {
        "estimate": estimated,
        "sum batch by batch": batch_by_batch,
        "meta": lambda: rnncost.estimate(large, lengths, batch_size=BATCH_SIZE, backward=True),
    }
    seconds = interleaved(calls, rounds=15, repeat=2)
    median = {name: statistics.median(found) for name, found in seconds.items()}
    ratio = median_ratio(seconds["sum batch by batch"], seconds["estimate"])
    OUTPUT.write_text(
        f"""# What an estimate costs

Written by `python -m tests.benchmarks.estimates`: one run, torch {torch.__version__}, {platform.machine()}.
{len(lengths):,} verse lengths in batches of {BATCH_SIZE}, forward and backward; medians of 15 interleaved rounds.

| what | milliseconds |
|---|---|
| `rnncost.estimate("lstm:128x256x2:bi", lengths, batch_size=64, backward=True)` | {median["estimate"] * 1e3:.1f} |
| the same sums batch by batch, equal to the integer | {median["sum batch by batch"] * 1e3:.1f} ({ratio:.1f} times) |
| the same for a model of {parameters:,} parameters on the meta device | {median["meta"] * 1e3:.1f} |
"""
    )
    print(OUTPUT.read_text())


if __name__ == "__main__":
    main()
