"""Whether a device's clock and a synchronised wall clock agree, and whether the tracker's times are of this world."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch import nn

import rnncost
from rnncost.timing.clock import clock_for
from tests.gpu.check import Check, passed_if

WITHIN = 0.02
REPEATS = 7
TRACKER = "times of CostTracker"
_CALLS = 10


def synchronize(device: torch.device) -> None:
    """Waits for a device; the CPU is never ahead."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize(device)


def clock_check(device: torch.device, *, work_s: float, hidden: int, repeats: int = REPEATS) -> Check:
    """Compares the clock with ``perf_counter`` around work that is waited for.

    Args:
        device: whose clock.
        work_s: about how long each work shall take: a launch must be nothing beside it.
        hidden: width of the LSTM that is trained meanwhile.
        repeats: how often; medians are compared.
    """
    step = _training_step(device, hidden=hidden)
    times = max(1, math.ceil(work_s / _seconds_of(step, device)))

    def work() -> None:
        for _ in range(times):
            step()

    clock = clock_for(device)
    clock_s, wall_s, queued_s = [], [], []
    for _ in range(repeats):
        synchronize(device)
        start = time.perf_counter()
        lap = clock.time(work)
        queued_s.append(time.perf_counter() - start)
        clock.settle()
        wall_s.append(time.perf_counter() - start)
        clock_s.append(lap.seconds)
    ratio = statistics.median(one / other for one, other in zip(clock_s, wall_s, strict=True))
    text = (
        f"{type(clock).__name__} says {statistics.median(clock_s):.4f} s where a synchronised wall clock says "
        f"{statistics.median(wall_s):.4f} s: ratio {ratio:.4f}, wanted within {WITHIN:.0%}; the host had queued the "
        f"work after {statistics.median(queued_s):.4f} s"
    )
    figures: dict[str, Any] = {"ratio": ratio, "clock_s": clock_s, "wall_s": wall_s, "queued_s": queued_s}
    return Check(name="clock", outcome=passed_if(abs(ratio - 1) <= WITHIN), text=text, figures=figures)


def _training_step(device: torch.device, *, hidden: int) -> Callable[[], None]:
    rnn = nn.LSTM(hidden, hidden).to(device)
    data = torch.randn(100, 64, hidden, device=device)

    def step() -> None:
        rnn.zero_grad(set_to_none=True)
        rnn(data)[0].sum().backward()

    return step


def _seconds_of(step: Callable[[], None], device: torch.device) -> float:
    """Seconds of one step once libraries are loaded and kernels chosen."""
    seconds = 0.0
    for _ in range(3):
        synchronize(device)
        start = time.perf_counter()
        step()
        synchronize(device)
        seconds = time.perf_counter() - start
    return seconds


def tracker_check(device: torch.device, *, hidden: int) -> Check:
    """Whether a tracker times every call, forward and backward, and no longer than the run itself."""
    rnn = nn.LSTM(hidden, hidden).to(device)
    data = torch.randn(50, 16, hidden, device=device)
    rnn(data)[0].sum().backward()
    synchronize(device)
    start = time.perf_counter()
    with rnncost.CostTracker(rnn, timing=True, backward=True) as tracker:
        for _ in range(_CALLS):
            rnn(data)[0].sum().backward()
    synchronize(device)
    wall_s = time.perf_counter() - start
    found = tracker.report.run_time
    if found is None:
        return Check(name=TRACKER, outcome="failed", text="the report has no times", figures={"wall_s": wall_s})
    every = (found.device, found.forward_calls, found.backward_calls) == (device.type, _CALLS, _CALLS)
    holds = every and found.forward_s > 0 and found.backward_s > 0 and found.total_s <= wall_s
    text = (
        f"{_CALLS} calls took {wall_s:.4f} s of wall time; the report says {found.forward_s:.4f} s for "
        f"{found.forward_calls} forward and {found.backward_s:.4f} s for {found.backward_calls} backward"
    )
    return Check(
        name=TRACKER, outcome=passed_if(holds), text=text, figures={"wall_s": wall_s, **msgspec.to_builtins(found)}
    )
