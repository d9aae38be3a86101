"""Layouts of recurrent layers against each other, and whether the advice holds when measured again.

Run it with ``python -m tests.benchmarks.layouts [--layers lstm:256,gru:256] [--batches 8,32]``;
it writes ``reports/layouts.md``, ``layouts.csv`` and a chart, ``layouts.svg``. Each case is profiled, and
then every exact layout is timed once more by a loop of this script's own, with ``process_time``, to see
whether the recommended one is the fastest or within 5 % of it. The whole takes half an hour on one core.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import platform
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import torch
from torch import nn

import rnncost
from rnncost.reporting.timing import LayoutTiming
from rnncost.timing.batch import SequenceBatch
from rnncost.timing.layer_profile import SPLIT
from rnncost.timing.layouts import Grouped, make_layout

REPORTS = Path(__file__).parents[2] / "reports"
STEPS, ROUNDS, FEWEST_ROUNDS, AGAIN_S, WITHIN = 100, 15, 5, 40.0, 1.05
_HEADINGS = (
    *("layer", "B", "lengths", "pass", "rows", "padded", "packed", "2 / 4 / 8 buckets"),
    *("split (groups)", "predicted / measured", "best"),
)
KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class Case(NamedTuple):
    kind: str
    hidden: int
    batch: int
    shape: str
    backward: bool


class Outcome(NamedTuple):
    case: Case
    rows: float
    timings: dict[str, LayoutTiming]
    best: str
    again: dict[str, float]

    @property
    def behind(self) -> float:
        """How much slower the recommended layout is than the fastest exact one, measured again."""
        chosen = "packed+packing" if self.best == "packed" else self.best
        return self.again[chosen] / min(self.again.values())

    @property
    def prediction(self) -> float:
        """Predicted seconds of the best split over those that the profile measured."""
        split = self.timings[SPLIT]
        return (split.predicted_s or 0.0) / split.total_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", default="lstm:32,lstm:256,lstm:512,gru:256")
    parser.add_argument("--batches", default="8,32,128")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds for each profile")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    outcomes = []
    for case in _cases(options):
        outcomes.append(_outcome(case, options.budget))
        print(case, outcomes[-1].best, f"{outcomes[-1].behind:.2f}", flush=True)
        _write(outcomes)


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    for layer, batch in itertools.product(options.layers.split(","), options.batches.split(",")):
        kind, _, hidden = layer.partition(":")
        for shape, backward in itertools.product(("uniform", "one long"), (False, True)):
            yield Case(kind, int(hidden), int(batch), shape, backward)


def _lengths(case: Case) -> list[int]:
    if case.shape == "one long":
        return [STEPS] + [STEPS // 10] * (case.batch - 1)
    draw = random.Random(case.batch)
    return [STEPS] + [draw.randint(1, STEPS) for _ in range(case.batch - 1)]


def _outcome(case: Case, budget_s: float) -> Outcome:
    torch.manual_seed(0)
    rnn = KINDS[case.kind](case.hidden, case.hidden)
    lengths = _lengths(case)
    layer = rnncost.profile(rnn, lengths, backward=case.backward, budget_s=budget_s).layers[0]
    timings = {timing.layout: timing for timing in layer.timings}
    again = _again(rnn, lengths, [timing for timing in layer.timings if timing.exact], backward=case.backward)
    rows = sum(lengths) / (len(lengths) * max(lengths))
    return Outcome(case, rows, timings, layer.best_layout or "", again)


def _again(rnn: Any, lengths: Sequence[int], timings: Sequence[LayoutTiming], *, backward: bool) -> dict[str, float]:
    """Median process seconds of each exact layout, padded in and padded out."""
    batch = SequenceBatch(rnn, lengths)
    runs: dict[str, Callable[[], Any]] = {}
    for timing in timings:
        if timing.layout == SPLIT:
            runs[SPLIT] = Grouped(rnn, batch, timing.groups, name=SPLIT).run
        elif timing.layout != "packed":
            runs[timing.layout] = make_layout(timing.layout, rnn, batch).run
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    draw = random.Random(0)
    begun = time.monotonic()
    with torch.set_grad_enabled(backward):
        for number in range(ROUNDS):
            if number >= FEWEST_ROUNDS and time.monotonic() - begun > AGAIN_S:
                break
            for name, run in draw.sample(list(runs.items()), len(runs)):
                rnn.zero_grad(set_to_none=True)
                start = time.process_time()
                outputs = run()
                if backward:
                    torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(found[1:]) for name, found in seconds.items()}


def _write(outcomes: Sequence[Outcome]) -> None:
    held = sum(outcome.behind <= WITHIN for outcome in outcomes)
    errors = sorted(abs(outcome.prediction - 1) for outcome in outcomes)
    long = [outcome for outcome in outcomes if outcome.timings[SPLIT].total_s > 5e-3]
    worst = max((abs(outcome.prediction - 1) for outcome in long), default=0.0)
    lines = [
        "# Layouts of recurrent layers",
        "",
        f"Written by `{' '.join(['python -m tests.benchmarks.layouts', *sys.argv[1:]])}`:",
        f"torch {torch.__version__}, {platform.machine()}, one",
        f"thread. Input as wide as the hidden size, {STEPS} steps; lengths uniform on 1 to {STEPS}, or one of",
        f"{STEPS} and the rest of {STEPS // 10}. Ratios are to padded, whole time of the pass named, in interleaved",
        "rounds; packing and unpacking are in `packed`. Rows is the real share of the padded rows.",
        "",
        "![Rows saved against time](layouts.svg)",
        "",
        f"The recommended layout was the fastest exact one, or within 5 % of it, in {held} of {len(outcomes)} cases",
        "when measured again by this script's own loop. The best split was predicted with a median error of",
        f"{statistics.median(errors):.1%}; the largest above 5 ms was {worst:.1%}.",
        "",
        f"| {' | '.join(_HEADINGS)} |",
        "|---" * len(_HEADINGS) + "|",
        *map(_line, outcomes),
        "",
    ]
    (REPORTS / "layouts.md").write_text("\n".join(lines))
    _chart(outcomes).save(REPORTS / "layouts.svg")
    with (REPORTS / "layouts.csv").open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(
            [*Case._fields, "rows", "layout", "exact", "total_s", "ratio", "low", "high", "again_s", "best"]
        )
        for outcome in outcomes:
            for name, timing in outcome.timings.items():
                ratios = (timing.ratio_to_padded, timing.ratio_low, timing.ratio_high)
                again = outcome.again.get(name, "")
                writer.writerow(
                    [*outcome.case, outcome.rows, name, timing.exact, timing.total_s, *ratios, again, outcome.best]
                )


def _chart(outcomes: Sequence[Outcome]) -> alt.HConcatChart:
    """Rows that packing saves against the time that packing, and the best split, take: a point a case."""
    points = [
        {
            "layer": f"{outcome.case.kind.upper()} {outcome.case.hidden}",
            "pass": _pass(outcome.case),
            "layout": label,
            "rows saved": 1 - outcome.rows,
            "time": outcome.timings[name].ratio_to_padded,
        }
        for outcome in outcomes
        for name, label in (("packed+packing", "packed"), (SPLIT, "best split"))
    ]
    even = alt.Chart(alt.InlineData([{"time": 1.0}])).mark_rule(strokeDash=[4, 4], color="#888888").encode(y="time:Q")
    marks = (
        alt.Chart(alt.InlineData(points))
        .mark_point(filled=True, size=55, opacity=0.75)
        .encode(
            x=alt.X("rows saved:Q", axis=alt.Axis(format="%"), title="rows that packing saves"),
            y=alt.Y("time:Q", scale=alt.Scale(type="log"), title="time relative to padded"),
            color=alt.Color("layer:N", title=None),
            shape=alt.Shape("pass:N", title=None),
        )
    )
    columns = [
        (even + marks.transform_filter(alt.datum.layout == label)).properties(width=300, height=300, title=label)
        for label in ("packed", "best split")
    ]
    chart: alt.HConcatChart = alt.hconcat(*columns).resolve_scale(y="shared")
    return chart


def _pass(case: Case) -> str:
    return "forward + backward" if case.backward else "forward"


def _line(outcome: Outcome) -> str:
    case, timings = outcome.case, outcome.timings
    buckets = [timings.get(f"bucketed({count})") for count in (2, 4, 8)]
    cells = [
        f"{case.kind.upper()} {case.hidden}",
        str(case.batch),
        case.shape,
        _pass(case),
        f"{outcome.rows:.2f}",
        f"{timings['padded'].total_s * 1e3:.1f} ms",
        f"{timings['packed+packing'].ratio_to_padded:.2f}",
        " / ".join("" if each is None else f"{each.ratio_to_padded:.2f}" for each in buckets),
        f"{timings[SPLIT].ratio_to_padded:.2f} ({len(timings[SPLIT].groups)})",
        f"{outcome.prediction:.2f}",
        f"{outcome.best}" + ("" if outcome.behind <= WITHIN else f" (x{outcome.behind:.2f} again)"),
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
