"""What counting costs: a packed nn.LSTM call bare, hooked, tracked, and under other counters.

Run it with ``python -m tests.benchmarks.hooks`` after ``pip install -c constraints.txt -e ".[benchmark]"``;
it writes ``reports/hooks.md``.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.flop_counter import FlopCounterMode

import rnncost
from tests.benchmarks.interleave import interleaved, median_difference, median_ratio
from tests.builders import packed_batch

OUTPUT = Path(__file__).parents[2] / "reports" / "hooks.md"
Call = Callable[[], object]

# A call that does almost nothing shows the cost of a hook; a usual one shows its share.
CASES = {
    "H=8, B=2, T=4": (8, [4, 2]),
    "H=32, B=8, T=100": (32, [100, 90, 80, 60, 50, 30, 20, 10]),
}


def main() -> None:
    torch.set_num_threads(1)
    sections = [_section(name, hidden, lengths) for name, (hidden, lengths) in CASES.items()]
    OUTPUT.write_text("\n".join([_HEADER.format(torch=torch.__version__, machine=platform.machine()), *sections]))
    print(OUTPUT.read_text())


def _section(name: str, hidden: int, lengths: list[int]) -> str:
    batch = packed_batch(lengths, hidden)
    modules = {way: nn.LSTM(hidden, hidden) for way in ("bare", "empty hook", "rnncost", "FlopCounterMode", "thop")}
    modules["empty hook"].register_forward_hook(_empty_hook, with_kwargs=True)
    _attach_thop(modules["thop"], batch)

    def counted() -> None:
        with FlopCounterMode(display=False):
            modules["FlopCounterMode"](batch)

    with torch.no_grad(), rnncost.CostTracker(modules["rnncost"]):
        calls: dict[str, Call] = {way: _call(module, batch) for way, module in modules.items()}
        calls["FlopCounterMode"] = counted
        # FlopCounterMode takes 20 times as long and leaves cold caches behind: it gets rounds of its own.
        slow = interleaved({way: calls[way] for way in ("bare", "FlopCounterMode")}, rounds=60, repeat=2)
        del calls["FlopCounterMode"]
        seconds = interleaved(calls, rounds=400, repeat=10 if max(lengths) > 50 else 50)
    base = seconds["bare"]
    lines = [
        f"## LSTM, {name}",
        "",
        "| way | ratio to bare | added, µs a call | added, ratio to the empty hook |",
        "|---|---|---|---|",
    ]
    empty = median_difference(seconds["empty hook"], base)
    for way, taken in seconds.items():
        added = median_difference(taken, base)
        lines.append(f"| {way} | {median_ratio(taken, base):.3f} | {added * 1e6:.2f} | {added / empty:.1f} |")
    ratio = median_ratio(slow["FlopCounterMode"], slow["bare"])
    added = median_difference(slow["FlopCounterMode"], slow["bare"])
    lines.append(f"| FlopCounterMode | {ratio:.3f} | {added * 1e6:.2f} | {added / empty:.1f} |")
    return "\n".join([*lines, ""])


def _call(module: nn.Module, batch: PackedSequence) -> Call:
    return lambda: module(batch)


def _empty_hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
    pass


def _attach_thop(module: nn.Module, batch: PackedSequence) -> None:
    """Puts thop's own counting hook on the module, as ``thop.profile`` does for one call."""
    from thop.rnn_hooks import count_lstm  # type: ignore[import-untyped,import-not-found,unused-ignore]

    module.total_ops = torch.zeros(1, dtype=torch.float64)
    module.register_forward_hook(count_lstm)
    module(batch)


_HEADER = """# What counting costs

Written by `python -m tests.benchmarks.hooks`: one run, torch {torch}, {machine}, one thread, `no_grad`.
The ways take turns in shuffled order, 400 rounds (FlopCounterMode and bare apart, 60); figures are
medians over rounds, so read the ratios, not the microseconds. "added" is the time beyond the bare call.
Aim: rnncost adds at most twice what the empty hook adds. It reads a list of batch sizes, which grows with T.
"""

if __name__ == "__main__":
    main()
