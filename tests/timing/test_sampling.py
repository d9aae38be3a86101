"""Verdicts on made-up clocks, where the answer is known."""

from __future__ import annotations

import gc
import itertools
import random
from collections.abc import Iterator

import pytest
import torch

from rnncost.errors import DeviceError, NoisyTimingWarning
from rnncost.timing.clock import CpuClock, EventClock, FakeClock, Lap, clock_for
from rnncost.timing.sampling import Ratio, median_interval, sample


class ScriptedClock:
    """Takes the seconds of a call from the call itself."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.time_s = 0.0
        self.settled = 0

    def time(self, call: object) -> Lap:
        name, seconds = call()  # type: ignore[operator]
        self.order.append(name)
        self.time_s += seconds
        return Lap(seconds, seconds)

    def settle(self) -> None:
        self.settled += 1


def test_ratios_are_taken_round_by_round() -> None:
    # The machine slows down threefold on the way; within each round the ratio stays a half.
    drift = itertools.count(1)
    clock = ScriptedClock()
    speed = {"now": 1.0}

    def padded() -> tuple[str, float]:
        speed["now"] = 1 + next(drift) / 10
        return "padded", speed["now"]

    sampled = sample(
        {"padded": padded, "packed": lambda: ("packed", 0.5 * speed["now"])},
        clock=clock,
        base="padded",
        budget_s=1e9,
        seed=3,
    )
    ratio = sampled.ratio("packed", "padded")
    assert 0.4 < ratio.low <= ratio.median <= ratio.high < 0.6
    assert ratio.verdict == "faster"


def test_rounds_are_interleaved_and_shuffled_by_the_seed() -> None:
    orders = []
    for seed in (0, 0, 1):
        clock = ScriptedClock()
        calls = {name: (lambda name=name: (name, 1.0)) for name in "abc"}
        sample(calls, clock=clock, base="a", budget_s=1e9, seed=seed)
        rounds = [clock.order[start : start + 3] for start in range(6, len(clock.order), 3)]
        assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
        orders.append(rounds)
    assert orders[0] == orders[1] != orders[2]
    assert len({tuple(each) for each in orders[0]}) > 1


def test_rounds_end_when_all_is_narrow_or_the_budget_is_spent() -> None:
    steady = sample({"a": lambda: ("a", 1.0), "b": lambda: ("b", 2.0)}, clock=ScriptedClock(), base="a", budget_s=1e9)
    assert steady.rounds == 15
    assert steady.ratio("b", "a") == Ratio(median=2.0, low=2.0, high=2.0)
    draw = random.Random(0)
    clock = ScriptedClock()
    noisy = sample(
        {"a": lambda: ("a", draw.uniform(1, 9)), "b": lambda: ("b", draw.uniform(1, 9))},
        clock=clock,
        base="a",
        budget_s=1000,
        now=lambda: clock.time_s,
    )
    assert 15 < noisy.rounds < 200
    assert noisy.ratio("b", "a").verdict == "unclear"


def test_a_short_call_follows_itself_as_in_a_loop() -> None:
    ran: list[str] = []

    def call(name: str, seconds: float) -> tuple[str, float]:
        ran.append(name)
        return name, seconds

    clock = ScriptedClock()
    sampled = sample(
        {"short": lambda: call("short", 0.001), "long": lambda: call("long", 0.02)},
        clock=clock,
        base="long",
        budget_s=1e9,
    )
    assert sampled.rounds == 15
    warm_ups = 2
    # Each round runs the short call twice and times it once.
    assert (ran.count("short"), clock.order.count("short")) == (warm_ups + 2 * 15, warm_ups + 15)
    assert (ran.count("long"), clock.order.count("long")) == (warm_ups + 15, warm_ups + 15)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.98, 1.02, "same"), (0.5, 0.6, "faster"), (1.2, 1.3, "slower"), (0.9, 1.1, "unclear"), (0.96, 0.99, "faster")],
)
def test_verdicts(low: float, high: float, verdict: str) -> None:
    assert Ratio(median=(low + high) / 2, low=low, high=high).verdict == verdict


@pytest.mark.parametrize(
    ("rounds", "low", "high", "enough"),
    # Twice the chance of fewer than k of n fair coins: n = 5, k = 1 has 6.3 %; 6, 1 3.1 %; 8, 1 0.8 % and k = 2 7.0 %;
    # 11, 2 1.2 %; 15, 4 3.5 %; 25, 8 4.3 %.
    [(1, 1, 1, False), (5, 1, 5, False), (6, 1, 6, True), (8, 1, 8, True), (11, 2, 10, True), (15, 4, 12, True)],
)
def test_the_interval_of_a_median(rounds: int, low: int, high: int, enough: bool) -> None:
    ratio = median_interval([float(value) for value in range(rounds, 0, -1)])
    assert (ratio.low, ratio.high, ratio.enough) == (low, high, enough)
    assert ratio.median == (rounds + 1) / 2
    assert enough or ratio.verdict == "unclear"


@pytest.mark.parametrize("rounds", [1, 3, 5, 6, 7, 11, 15, 25, 50])
def test_a_call_against_itself_is_rarely_another(rounds: int) -> None:
    # The hardest case: whichever call a round runs second is 8 % slower, and nothing else happens.
    draw = random.Random(0)
    verdicts = [median_interval([draw.choice([1.08, 1 / 1.08]) for _ in range(rounds)]).verdict for _ in range(4000)]
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) <= 0.05 * 4000


def test_a_budget_of_nothing_runs_three_rounds_and_gives_no_verdict() -> None:
    sampled = sample({"a": lambda: ("a", 1.0), "b": lambda: ("b", 2.0)}, clock=ScriptedClock(), base="a", budget_s=1e-9)
    assert sampled.rounds == 3
    assert sampled.ratio("b", "a") == Ratio(median=2.0, low=2.0, high=2.0, enough=False)
    assert sampled.ratio("b", "a").verdict == "unclear"


def test_an_interrupt_while_garbage_is_collected_leaves_the_collector_on(monkeypatch: pytest.MonkeyPatch) -> None:
    disable = gc.disable

    def interrupted() -> None:
        disable()
        raise KeyboardInterrupt

    monkeypatch.setattr(gc, "disable", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            sample({"a": lambda: ("a", 1.0)}, clock=ScriptedClock(), base="a", budget_s=1)
        assert gc.isenabled()
    finally:
        gc.enable()


def test_an_interrupt_keeps_what_was_measured() -> None:
    counter = itertools.count()

    def interrupted() -> tuple[str, float]:
        if next(counter) == 12:
            raise KeyboardInterrupt
        return "a", 1.0

    sampled = sample({"a": interrupted, "b": lambda: ("b", 1.0)}, clock=ScriptedClock(), base="a", budget_s=1e9)
    assert not sampled.complete
    assert sampled.rounds >= 1

    def at_once() -> tuple[str, float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sample({"a": at_once}, clock=ScriptedClock(), base="a", budget_s=1)
    assert gc.isenabled()


def test_what_is_run_between_is_not_timed_and_garbage_is_left_alone() -> None:
    seen = []
    sample(
        {"a": lambda: ("a", 1.0)},
        clock=ScriptedClock(),
        base="a",
        budget_s=1e9,
        between=lambda: seen.append(gc.isenabled()),
    )
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_waiting_for_others_is_warned_about() -> None:
    class Busy(ScriptedClock):
        def time(self, call: object) -> Lap:
            lap = super().time(call)
            lap.cpu_seconds = lap.seconds / 2
            return lap

    with pytest.warns(NoisyTimingWarning, match="2 s of wall time for 1 s of CPU time"):
        sampled = sample({"a": lambda: ("a", 2.0)}, clock=Busy(), base="a", budget_s=1e9)
    assert sampled.median("a") == 1.0


@pytest.mark.parametrize(("wall_s", "cpu_s", "own_s"), [(2.0, 1.0, 1.0), (1.0, 1.9, 1.0), (1.0, None, 1.0)])
def test_waiting_is_no_time_of_ones_own(wall_s: float, cpu_s: float | None, own_s: float) -> None:
    assert Lap(wall_s, cpu_s).own_seconds == own_s


def test_the_cpu_clock_measures() -> None:
    lap = CpuClock().time(lambda: sum(range(200_000)))
    assert 0 < lap.seconds < 10
    assert lap.cpu_seconds is not None
    assert lap.cpu_seconds > 0


def test_the_fake_clock_runs_the_call() -> None:
    ran = []
    clock = FakeClock([1.5, 2.5])
    assert [clock.time(lambda: ran.append(1)).seconds for _ in range(2)] == [1.5, 2.5]
    assert ran == [1, 1]


def test_event_clocks_synchronise_once_at_the_end() -> None:
    log: list[str] = []
    times: Iterator[float] = iter([0.0, 1500.0, 2000.0, 5000.0])

    class Event:
        def record(self) -> None:
            log.append("record")
            self.at = next(times)

        def elapsed_time(self, other: Event) -> float:
            assert "synchronize" in log
            return other.at - self.at

    clock = EventClock(new_event=Event, synchronize=lambda: log.append("synchronize"))
    first, second = clock.time(lambda: log.append("call")), clock.time(lambda: None)
    assert "synchronize" not in log
    clock.settle()
    assert (first.seconds, second.seconds) == (1.5, 3.0)
    assert log.count("synchronize") == 1


def test_every_device_has_its_clock() -> None:
    assert isinstance(clock_for(torch.device("cpu")), CpuClock)
    for name in ("cuda", "xpu", "mps"):
        assert isinstance(clock_for(torch.device(name)), EventClock)
    with pytest.raises(DeviceError, match="no clock is known for device 'meta'"):
        clock_for(torch.device("meta"))
