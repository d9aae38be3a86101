"""Interleaved rounds of several calls, and what their ratios say."""

from __future__ import annotations

import contextlib
import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from rnncost.errors import NoisyTimingWarning
from rnncost.timing.clock import Call, Clock, Lap
from rnncost.warn import warn

Verdict = Literal["faster", "slower", "same", "unclear"]
SAME_WITHIN = 0.03
_MIN_ROUNDS = 11
_FEWEST_ROUNDS = 3
_BLOCK_ROUNDS = 5
_MAX_WARM_UPS = 12
_STABLE_WITHIN = 0.1
_OUTSIDE = 0.05
_NARROW = 0.02
_NOISY_WITHIN = 0.1
_SHORT_S = 0.01


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio of times: the median over rounds of the ratio within a round.

    Attributes:
        median: the ratio.
        low: lower end of its interval of at least 95 %.
        high: upper end.
        enough: whether there were the six rounds that such an interval takes, since in 1 of 16 runs
            all of five fall on one side of their median; else it is their whole range.
    """

    median: float
    low: float
    high: float
    enough: bool = True

    @property
    def verdict(self) -> Verdict:
        """``same`` inside ±3 %; else ``faster`` or ``slower`` where the interval leaves 1 out."""
        if not self.enough:
            return "unclear"
        if self.low >= 1 - SAME_WITHIN and self.high <= 1 + SAME_WITHIN:
            return "same"
        if self.high < 1:
            return "faster"
        return "slower" if self.low > 1 else "unclear"


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """Laps of several calls, round by round.

    Attributes:
        seconds: for each call its own seconds in every round, without those spent waiting for others.
        complete: whether the rounds ended of themselves, not by an interrupt.
    """

    seconds: dict[str, list[float]]
    complete: bool

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return min(map(len, self.seconds.values()))

    def median(self, name: str) -> float:
        """Median seconds of a call."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, base: str) -> Ratio:
        """How long ``name`` takes relative to ``base``."""
        pairs = zip(self.seconds[name], self.seconds[base], strict=True)
        return median_interval([one / other for one, other in pairs])


def median_interval(ratios: Sequence[float]) -> Ratio:
    """The median of ``ratios`` between two of them: the sign test's interval, of at least 95 %.

    The order of a round is drawn anew each time, so of two calls that are the same either comes out
    slower with a chance of a half, whatever else the machine does and however long. A false
    difference is then a matter of counting signs, and this interval keeps it below 5 % for any
    number of rounds and any noise; a bootstrap of few rounds does not (a quarter of runs with three).
    """
    values = sorted(ratios)
    left_out = _left_out(len(values))
    return Ratio(
        median=statistics.median(values),
        low=values[max(0, left_out - 1)],
        high=values[-max(1, left_out)],
        enough=left_out > 0,
    )


def _left_out(rounds: int) -> int:
    """Rank, from either end, of the ratios that bound the interval; 0 where there is none.

    The median lies below the k-th smallest of n with the chance that fewer than k of n fair coins fall heads.
    """
    fewer, rank = 1, 0
    while rank < rounds and 2 * fewer <= _OUTSIDE * 2**rounds:
        rank += 1
        fewer += math.comb(rounds, rank)
    return rank


def sample(
    calls: Mapping[str, Call],
    *,
    clock: Clock,
    base: str,
    budget_s: float,
    fewest_rounds: int = _FEWEST_ROUNDS,
    seed: int = 0,
    between: Callable[[], None] | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Sampled:
    """Times calls in interleaved rounds: A B C, B C A, … in shuffled order.

    What disturbs the machine then disturbs all alike, and ratios are taken within a round. Rounds
    go on until the interval of every ratio to ``base`` is narrow or the budget is spent; the fewest are
    run whatever the budget, but without six there is no verdict. A call of a few milliseconds is
    run once more, untimed, right before it is timed: in a training loop it follows itself and finds
    its own data in the caches, not those of another layout. An interrupt (Ctrl-C) ends all, keeping
    what was measured if that is a round.

    Args:
        calls: what to time, by name.
        clock: the clock of their device.
        base: the call that the others are compared with.
        budget_s: seconds for everything, warm-up included.
        fewest_rounds: rounds that are run when the budget is spent before.
        seed: of the order.
        between: run before each call and not timed: frees gradients, for example.
        now: seconds since some moment; a fake one in tests.

    Warns:
        NoisyTimingWarning: if wall and CPU time disagree: the process waited for others.
    """
    deadline = now() + budget_s
    prepare = between or (lambda: None)
    laps: dict[str, list[Lap]] = {name: [] for name in calls}
    order, complete = list(calls), True
    shuffle = random.Random(seed).shuffle
    with _quiet_garbage():
        try:
            warm_s = {
                name: _warm_up(calls[name], clock, prepare, now() + budget_s / (4 * len(order)), now) for name in order
            }
            while True:
                for _ in range(_BLOCK_ROUNDS):
                    shuffle(order)
                    for name in order:
                        if warm_s[name] < _SHORT_S:
                            prepare()
                            calls[name]()
                        prepare()
                        laps[name].append(clock.time(calls[name]))
                    if now() >= deadline and len(laps[base]) >= fewest_rounds:
                        break
                clock.settle()
                rounds = len(laps[base])
                spent = now() >= deadline and rounds >= fewest_rounds
                if spent or (rounds >= _MIN_ROUNDS and _all_narrow(laps, base)):
                    break
        except KeyboardInterrupt:
            clock.settle()
            complete = False
            if not min(map(len, laps.values())):
                raise
    _warn_if_noisy(laps)
    return _sampled(laps, complete=complete)


def _warm_up(call: Call, clock: Clock, prepare: Callable[[], None], deadline: float, now: Callable[[], float]) -> float:
    """Runs ``call`` until it takes as long as the time before: caches, allocators and threads are ready then.

    Returns the seconds of the last run.
    """
    before = float("inf")
    for _ in range(_MAX_WARM_UPS):
        prepare()
        lap = clock.time(call)
        clock.settle()
        if abs(lap.seconds - before) <= _STABLE_WITHIN * lap.seconds or now() >= deadline:
            break
        before = lap.seconds
    return lap.seconds


def _all_narrow(laps: Mapping[str, Sequence[Lap]], base: str) -> bool:
    sampled = _sampled(laps, complete=True)
    ratios = [sampled.ratio(name, base) for name in laps if name != base]
    return all(ratio.high - ratio.low <= _NARROW * ratio.median for ratio in ratios)


def _sampled(laps: Mapping[str, Sequence[Lap]], *, complete: bool) -> Sampled:
    rounds = min(map(len, laps.values()))
    seconds = {name: [lap.own_seconds for lap in found[:rounds]] for name, found in laps.items()}
    return Sampled(seconds=seconds, complete=complete)


def _warn_if_noisy(laps: Mapping[str, Sequence[Lap]]) -> None:
    for name, found in laps.items():
        if not found or any(lap.cpu_seconds is None for lap in found):
            continue
        wall, own = (
            statistics.median(each) for each in zip(*((lap.seconds, lap.own_seconds) for lap in found), strict=True)
        )
        if wall > own * (1 + _NOISY_WITHIN):
            warn(
                f"{name} took {wall:.3g} s of wall time for {own:.3g} s of CPU time: the machine was busy with "
                "something else. The waiting is left out, but a busy machine is slower too",
                NoisyTimingWarning,
            )
            return


@contextlib.contextmanager
def _quiet_garbage() -> Iterator[None]:
    was_enabled = gc.isenabled()
    # An interrupt that comes while it collects is raised after it has been switched off.
    try:
        gc.collect()
        gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()
