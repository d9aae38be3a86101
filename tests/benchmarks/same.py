"""How often the sampler finds a difference where there is none: a layout timed against itself.

Run it with ``python -m tests.benchmarks.same [--repeats 20] [--hidden 32,64,128,256]``; it writes
``reports/same.md`` and ``reports/same.csv``. Each run gives :func:`rnncost.timing.sampling.sample` the very
same call under two names, so that ``faster`` and ``slower`` are both wrong.
"""

from __future__ import annotations

import argparse
import collections
import csv
import itertools
import os
import platform
import statistics
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from rnncost.errors import NoisyTimingWarning
from rnncost.timing.batch import SequenceBatch
from rnncost.timing.clock import CpuClock
from rnncost.timing.layouts import make_layout
from rnncost.timing.sampling import Ratio, Sampled, sample

REPORTS = Path(__file__).parents[2] / "reports"
STEPS, SEQUENCES, AIM = 50, 16, 0.05
VERDICTS = ("faster", "slower", "same", "unclear")
# Where a figure of false differences is given apart: by the rounds that there was time for.
ROUNDS = ((1, 5), (6, 10), (11, 20), (21, 100_000))


class Run(NamedTuple):
    hidden: int
    budget_s: float
    seed: int
    rounds: int
    seconds: float
    noisy: bool
    ratio: Ratio

    @property
    def false(self) -> bool:
        """Whether it found a difference."""
        return self.ratio.verdict in ("faster", "slower")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="runs of each size and budget")
    parser.add_argument("--hidden", default="32,64,128,256")
    parser.add_argument("--budgets", default="0.02,0.2,1", help="seconds of a run; the smallest gives few rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    sizes = [int(size) for size in options.hidden.split(",")]
    budgets = [float(seconds) for seconds in options.budgets.split(",")]
    # Repeats outermost: a busy minute of the machine falls on all sizes and budgets alike.
    cases = itertools.product(range(options.repeats), sizes, budgets)
    runs = [run(hidden, budget_s=budget_s, seed=seed) for seed, hidden, budget_s in cases]
    write(runs, load=load, folder=REPORTS)


def run(hidden: int, *, budget_s: float, seed: int) -> Run:
    """One comparison of a padded forward pass with itself."""
    torch.manual_seed(seed)
    rnn = nn.LSTM(hidden, hidden)
    layout = make_layout("padded", rnn, SequenceBatch(rnn, [STEPS] * SEQUENCES, seed=seed))
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sampled = compare(layout.run, budget_s=budget_s, seed=seed)
    noisy = any(issubclass(each.category, NoisyTimingWarning) for each in caught)
    seconds = sampled.median("first")
    return Run(hidden, budget_s, seed, sampled.rounds, seconds, noisy, sampled.ratio("second", "first"))


def compare(call: Any, *, budget_s: float, seed: int) -> Sampled:
    """``call`` under two names."""
    return sample({"first": call, "second": call}, clock=CpuClock(), base="first", budget_s=budget_s, seed=seed)


def write(runs: Sequence[Run], *, load: float, folder: Path) -> None:
    """Writes the table and every run."""
    false = sum(run.false for run in runs)
    rate = false / len(runs)
    budgets = ", ".join(f"{seconds:g}" for seconds in dict.fromkeys(run.budget_s for run in runs))
    medians = sorted(abs(run.ratio.median - 1) for run in runs)
    lines = [
        "# A layout against itself",
        "",
        f"Written by `{' '.join(['python -m tests.benchmarks.same', *sys.argv[1:]])}`: torch {torch.__version__},",
        f"{platform.machine()}, one thread, {os.cpu_count()} processors shared with others, "
        f"load {load:.1f} before and {os.getloadavg()[0]:.1f} after.",
        f"A padded `nn.LSTM` forward, {SEQUENCES} sequences of {STEPS} steps, is timed against the very same call. Any",
        f"`faster` or `slower` is false; `unclear` is no claim. Budgets of a run: {budgets} s.",
        "",
        f"**{false} false differences in {len(runs)} runs, {rate:.1%}: the aim of at most {AIM:.0%} is"
        f" {'met' if rate <= AIM else 'missed'}.** The median ratio was off by",
        f"{statistics.median(medians):.1%} in the middle run and {medians[-1]:.1%} in the worst;"
        f" {sum(run.noisy for run in runs)} runs warned that the machine was busy.",
        "",
        "| runs with | runs | faster | slower | same | unclear | false |",
        "|---|---|---|---|---|---|---|",
        *(
            _line(f"{low} to {high} rounds" if high < 1000 else f"{low} rounds or more", group)
            for low, high in ROUNDS
            if (group := [run for run in runs if low <= run.rounds <= high])
        ),
        *(
            _line(f"LSTM {hidden}, {statistics.median(run.seconds for run in group) * 1e3:.2f} ms a call", group)
            for hidden in dict.fromkeys(run.hidden for run in runs)
            if (group := [run for run in runs if run.hidden == hidden])
        ),
        _line("all", runs),
        "",
    ]
    (folder / "same.md").write_text("\n".join(lines))
    with (folder / "same.csv").open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["hidden", "budget_s", "seed", "rounds", "seconds", "noisy", "ratio", "low", "high", "verdict"])
        for each in runs:
            ratio = each.ratio
            writer.writerow([*each[:-1], ratio.median, ratio.low, ratio.high, ratio.verdict])


def _line(name: str, runs: Iterable[Run]) -> str:
    verdicts: collections.Counter[str] = collections.Counter(run.ratio.verdict for run in runs)
    total = sum(verdicts.values())
    false = verdicts["faster"] + verdicts["slower"]
    cells = [name, str(total), *(str(verdicts[verdict]) for verdict in VERDICTS), f"{false / total:.1%}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
