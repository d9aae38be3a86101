"""Sums of seconds between moments, read once the device has passed them and never by waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from rnncost.tracking.moments import Moment, Moments

# As many spans are kept at most before those that the device has passed are summed.
QUEUE_LENGTH = 256


class Span:
    """One call between two moments, with the calls inside it that are timed by themselves.

    Attributes:
        moments: where they were noted.
        device: type of that device.
    """

    __slots__ = ("_end", "_inner", "_start", "device", "moments")

    def __init__(self, moments: Moments, device: str, start: Moment, end: Moment, inner: Sequence[Span] = ()) -> None:
        self.moments = moments
        self.device = device
        self._start = start
        self._end = end
        self._inner = inner

    def passed(self) -> bool:
        """Whether its seconds can be read without waiting."""
        passed = self.moments.passed
        return passed(self._end) and passed(self._start) and all(span.passed() for span in self._inner)

    def own_s(self) -> float:
        """Seconds without those of the calls inside."""
        return max(0.0, self._whole_s() - sum(span._whole_s() for span in self._inner))

    def _whole_s(self) -> float:
        return self.moments.seconds(self._start, self._end)


class Durations:
    """A sum over spans. Thread-safe.

    Attributes:
        calls: spans summed so far.
        seconds: what they took together.
        devices: types of the devices that they were noted on.
        pending: those that the device may not have passed yet.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0
        self.devices: set[str] = set()
        self.pending: deque[Span] = deque()
        self._lock = threading.Lock()

    def add(self, span: Span) -> None:
        """Takes a span in."""
        self.pending.append(span)
        if len(self.pending) >= QUEUE_LENGTH:
            self.drain()

    def drain(self) -> None:
        """Sums the spans that the device has passed, in their order."""
        with self._lock:
            while self.pending and self.pending[0].passed():
                span = self.pending.popleft()
                self.seconds += span.own_s()
                self.calls += 1
                self.devices.add(span.device)
