"""Times calls side by side: what disturbs the machine disturbs them all alike."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping

Call = Callable[[], object]


def interleaved(calls: Mapping[str, Call], *, rounds: int, repeat: int, seed: int = 0) -> dict[str, list[float]]:
    """Seconds per call, one figure a round, in rounds that run every call in shuffled order.

    Args:
        calls: what to time, by name.
        rounds: how often each is timed.
        repeat: calls within one timing.
        seed: of the order.
    """
    order = list(calls)
    shuffle = random.Random(seed).shuffle
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for name in order:
        calls[name]()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            shuffle(order)
            for name in order:
                call = calls[name]
                start = time.perf_counter()
                for _ in range(repeat):
                    call()
                seconds[name].append((time.perf_counter() - start) / repeat)
    finally:
        gc.enable()
    return seconds


def median_ratio(seconds: list[float], base: list[float]) -> float:
    """The median over rounds of the ratio within a round."""
    return statistics.median(one / other for one, other in zip(seconds, base, strict=True))


def median_difference(seconds: list[float], base: list[float]) -> float:
    """The median over rounds of the difference within a round, in seconds."""
    return statistics.median(one - other for one, other in zip(seconds, base, strict=True))
