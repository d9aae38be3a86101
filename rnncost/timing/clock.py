"""Clocks: how long a call takes on a device, without waiting for it in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch

from rnncost.errors import DeviceError
from rnncost.tracking.moments import EventMoments, events_for

Call = Callable[[], object]


class Lap:
    """One timed call. ``seconds`` is known once the clock has settled.

    Attributes:
        seconds: time on the device, or wall time on the CPU.
        cpu_seconds: process CPU time beside it, where the device is the CPU.
    """

    __slots__ = ("cpu_seconds", "seconds")

    def __init__(self, seconds: float = 0.0, cpu_seconds: float | None = None) -> None:
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds

    @property
    def own_seconds(self) -> float:
        """Seconds without those that the process waited for others.

        With several threads the CPU time is the larger; a wall time above it was spent waiting,
        since nothing that is timed sleeps.
        """
        return self.seconds if self.cpu_seconds is None else min(self.seconds, self.cpu_seconds)


class Clock(Protocol):
    """Times calls one after another."""

    def time(self, call: Call) -> Lap:
        """Runs ``call`` and notes how long it takes, without waiting for the device."""

    def settle(self) -> None:
        """Waits for the device once, and fills in the laps noted since the last time."""


class CpuClock:
    """``perf_counter``, with the process's CPU time beside it."""

    def time(self, call: Call) -> Lap:
        """Runs ``call``; its lap is complete at once."""
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return Lap(wall, cpu)

    def settle(self) -> None:
        """Nothing to wait for."""


class EventClock:
    """Events of an accelerator on its current stream, read after one synchronisation.

    Args:
        new_event: makes an event that can time: ``torch.cuda.Event(enable_timing=True)`` or its like.
        synchronize: waits for the device.
        record: records an event on the stream that is timed; by default on the current one.
    """

    def __init__(
        self,
        *,
        new_event: Callable[[], Any],
        synchronize: Callable[[], None],
        record: Callable[[Any], None] | None = None,
    ) -> None:
        self._moments = EventMoments(new_event=new_event, synchronize=synchronize, record=record)
        self._open: list[tuple[Lap, Any, Any]] = []

    def time(self, call: Call) -> Lap:
        """Records an event before and after ``call``."""
        moments = self._moments
        # Both are made first, so that making one is not timed.
        start, end, lap = moments.new_event(), moments.new_event(), Lap()
        moments.record(start)
        call()
        moments.record(end)
        self._open.append((lap, start, end))
        return lap

    def settle(self) -> None:
        """Synchronises once and reads all events."""
        self._moments.wait()
        for lap, start, end in self._open:
            lap.seconds = self._moments.seconds(start, end)
        self._open.clear()


class FakeClock:
    """Takes its seconds from an iterable, for tests; calls are run all the same."""

    def __init__(self, seconds: Iterable[float]) -> None:
        self._seconds: Iterator[float] = iter(seconds)

    def time(self, call: Call) -> Lap:
        """Runs ``call`` and takes the next figure."""
        call()
        seconds = next(self._seconds)
        return Lap(seconds, seconds)

    def settle(self) -> None:
        """Nothing to wait for."""


def clock_for(device: torch.device) -> Clock:
    """The clock that fits a device.

    Raises:
        DeviceError: for a device that no clock is known for.
    """
    if device.type == "cpu":
        return CpuClock()
    events = events_for(device)
    return EventClock(new_event=events.new_event, synchronize=events.wait, record=events.record)


def check_device(name: torch.device | str | None) -> None:
    """Makes sure that something can be timed on a device before anything is run.

    Raises:
        DeviceError: naming the device, if there is no such one or no clock for it.
    """
    if name is None:
        return
    try:
        device = torch.device(name)
        clock_for(device)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DeviceError(f"device {str(name)!r} cannot be used: {reason}") from None
