"""Moments on a device: noted while it runs on, and told apart in seconds once it has passed them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

from rnncost.errors import DeviceError

# A moment is a number of seconds on the CPU and an event elsewhere; only its Moments can tell.
Moment = Any


class Moments(Protocol):
    """Notes moments on one device."""

    def now(self) -> Moment | None:
        """The moment at which the device has done all that it was given; ``None`` if none can be noted now."""

    def passed(self, moment: Moment) -> bool:
        """Whether the device is beyond it, without waiting."""

    def wait(self) -> None:
        """Waits until the device is beyond all moments noted so far."""

    def seconds(self, start: Moment, end: Moment) -> float:
        """Seconds from one passed moment to another."""


class CpuMoments:
    """``perf_counter``: what runs on the CPU is done when its call returns."""

    def __init__(self) -> None:
        # Without a function of ours around it: a hook calls it.
        self.now = time.perf_counter

    def passed(self, moment: Moment) -> bool:
        """Always."""
        return True

    def wait(self) -> None:
        """Nothing to wait for."""

    def seconds(self, start: Moment, end: Moment) -> float:
        """Wall time."""
        return float(end - start)


class EventMoments:
    """Events of an accelerator on its current stream.

    Args:
        new_event: makes an event that can time: ``torch.cuda.Event(enable_timing=True)`` or its like.
        synchronize: waits for the device.
        record: records an event on the device's current stream.
        capturing: whether a graph is being captured, whose events could not be read.
    """

    def __init__(
        self,
        *,
        new_event: Callable[[], Any],
        synchronize: Callable[[], None],
        record: Callable[[Any], None] | None = None,
        capturing: Callable[[], bool] = bool,
    ) -> None:
        self.new_event = new_event
        self.wait = synchronize
        self.record = record or (lambda event: event.record())
        self._capturing = capturing

    def now(self) -> Moment | None:
        """An event recorded now."""
        if self._capturing():
            return None
        event = self.new_event()
        self.record(event)
        return event

    def passed(self, moment: Moment) -> bool:
        """Whether the device has reached the event."""
        return bool(moment.query())

    def seconds(self, start: Moment, end: Moment) -> float:
        """Time on the device. Milliseconds become seconds."""
        return float(start.elapsed_time(end)) / 1000


def events_for(device: torch.device) -> EventMoments:
    """Moments of an accelerator.

    Raises:
        DeviceError: for a device whose events are not known.
    """
    if device.type in ("cuda", "xpu"):
        backend = getattr(torch, device.type)
        return EventMoments(
            new_event=lambda: backend.Event(enable_timing=True),
            synchronize=lambda: backend.synchronize(device),
            # The current device of the process need not be the one that is timed.
            record=lambda event: event.record(backend.current_stream(device)),
            capturing=getattr(backend, "is_current_stream_capturing", bool),
        )
    if device.type == "mps":
        return EventMoments(
            new_event=lambda: torch.mps.Event(enable_timing=True),
            synchronize=torch.mps.synchronize,
        )
    raise DeviceError(f"no clock is known for device {str(device)!r}; use cpu, cuda, xpu or mps")


def moments_for(device: torch.device) -> Moments:
    """The moments that fit a device.

    Raises:
        DeviceError: for a device that no clock is known for.
    """
    return CpuMoments() if device.type == "cpu" else events_for(device)
