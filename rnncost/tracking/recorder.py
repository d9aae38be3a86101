"""Where hooks leave what they read: a queue of sizes, summed in batches, and a bounded sample."""

from __future__ import annotations

import random
import threading
from bisect import insort
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from rnncost.counting.kinds import BackwardKind, CallKind
from rnncost.counting.sample import SAMPLE_SIZE, BatchSample
from rnncost.counting.shape import BatchShape
from rnncost.counting.tally import BackwardTally, CallTally, Tally
from rnncost.tracking.backward_times import BackwardTimes

# The queue is summed when it is this long, which bounds memory and keeps the cost in the hook low:
# summing many calls in one loop is several times cheaper than one by one, between two kernels.
QUEUE_LENGTH = 256
_PRIORITY_BITS = 53


# The ways through which gradients came, and what is left out.
_Arrival = tuple[frozenset[int], frozenset[str]]


class Readable(Protocol):
    """A call whose backward is awaited."""

    def reading(self, ways: frozenset[int], left_out: frozenset[str]) -> tuple[BackwardKind, BatchShape]:
        """The kind of a backward whose gradient came through ``ways``, and the batch."""


class Recorder:
    """Sums of one module's calls. Thread-safe.

    Args:
        seed: decides which batches the sample keeps; the module's name.
        times: times the backward of its calls, where that is wanted.

    Attributes:
        queue: plain calls not yet summed: a list of batch sizes for a packed one, (sequences,
            steps) for a padded one. A hook appends and calls :meth:`sum_queue` once it is long.
    """

    def __init__(self, *, seed: str, times: BackwardTimes | None = None) -> None:
        self.times = times
        self.queue: deque[list[int] | tuple[int, int]] = deque()
        self._lock = threading.Lock()
        self._packed = _PlainSums()
        self._padded = _PlainSums()
        self.listening = True
        self.missed: dict[str, None] = {}
        self._arrivals: dict[tuple[Readable, int], tuple[frozenset[int], frozenset[str]]] = {}
        self._last_pass = -1
        self._forward: dict[CallKind, Tally] = {}
        self._backward: dict[BackwardKind, Tally] = {}
        self._random_bits = random.Random(seed).getrandbits
        self._samples: list[BatchSample] = []
        self._threshold = 1 << _PRIORITY_BITS

    def add(self, kind: CallKind, shape: BatchShape) -> None:
        """Adds one forward call."""
        with self._lock:
            self._forward[kind] = self._forward.get(kind, Tally()) + Tally.of(shape)
            self._sample(shape)

    def arrive(
        self, call: Readable, backward_pass: int, way: int, left_out: Callable[[], frozenset[str]]
    ) -> frozenset[str] | None:
        """Notes that a gradient arrived; returns what is left out if it is the call's first in this pass."""
        with self._lock:
            before = self._arrivals.get((call, backward_pass))
            ways, left = (frozenset[int](), left_out()) if before is None else before
            self._arrivals[call, backward_pass] = (ways | {way}, left)
            return left if before is None else None

    def finish(self, call: Readable, backward_pass: int) -> None:
        """Adds one backward of ``call``, once its pass has ended."""
        with self._lock:
            arrival = self._arrivals.pop((call, backward_pass), None)
            if arrival is not None:
                self._last_pass = _add(self._backward, call, backward_pass, arrival, self._last_pass)

    def sum_queue(self) -> None:
        """Adds the queued calls to the sums."""
        with self._lock:
            while self.queue:
                call = self.queue.popleft()
                if isinstance(call, list):
                    self._packed.add_packed(call)
                elif type(call[0]) is int and type(call[1]) is int:
                    self._padded.add_padded(*call)
                else:
                    continue  # a symbolic size: torch.export traces, nothing runs
                self._sample(call)

    def _sample(self, call: list[int] | tuple[int, int] | BatchShape) -> None:
        priority = self._random_bits(_PRIORITY_BITS)
        if priority >= self._threshold:
            return
        if isinstance(call, list):
            call = BatchShape.from_batch_sizes(call)
        elif isinstance(call, tuple):
            call = BatchShape.rectangle(sequences=call[0], steps=call[1])
        insort(self._samples, BatchSample(priority=priority, shape=call), key=lambda kept: kept.priority)
        if len(self._samples) >= SAMPLE_SIZE:
            del self._samples[SAMPLE_SIZE:]
            self._threshold = self._samples[-1].priority

    def calls(self) -> tuple[CallTally, ...]:
        """The forward calls so far, one tally a kind."""
        self.sum_queue()
        with self._lock:
            sums = dict(self._forward)
            for kind, plain in ((CallKind(packed=False), self._padded), (CallKind(packed=True), self._packed)):
                if plain.calls:
                    sums[kind] = sums.get(kind, Tally()) + plain.tally(packed=kind.packed)
        return tuple(CallTally(kind=kind, forward=sums[kind]) for kind in sorted(sums))

    def backwards(self) -> tuple[BackwardTally, ...]:
        """The backward passes so far, one tally a kind."""
        with self._lock:
            sums, last_pass = dict(self._backward), self._last_pass
            # A pass that raised has no end, and one may be running: what arrived is counted all the
            # same, but stays where it is, so that the rest of a running one is not another call.
            for (call, backward_pass), arrival in self._arrivals.items():
                last_pass = _add(sums, call, backward_pass, arrival, last_pass)
        return tuple(BackwardTally(kind=kind, backward=sums[kind]) for kind in sorted(sums))

    def samples(self) -> tuple[BatchSample, ...]:
        """The sample of the batches so far."""
        self.sum_queue()
        with self._lock:
            return tuple(self._samples)


def _add(sums: dict[BackwardKind, Tally], call: Readable, backward_pass: int, arrival: _Arrival, last_pass: int) -> int:
    """Adds one backward of ``call`` to ``sums``; returns its pass, the last one now."""
    kind, shape = call.reading(*arrival)
    sums[kind] = sums.get(kind, Tally()) + Tally(passes=int(backward_pass != last_pass)) + Tally.of(shape)
    return backward_pass


class _PlainSums:
    """Mutable sums over calls of one layout, of which nothing is known but the batch sizes."""

    __slots__ = (
        "calls",
        "last_rows",
        "padded_rows",
        "rows",
        "sequences",
        "shrink_rows",
        "slice_rows",
        "step_rows",
        "steps",
    )

    def __init__(self) -> None:
        self.calls = self.sequences = self.steps = self.rows = self.padded_rows = 0
        self.last_rows = self.step_rows = self.shrink_rows = self.slice_rows = 0

    def add_packed(self, sizes: list[int]) -> None:
        sequences, steps, last_rows = sizes[0], len(sizes), sizes[-1]
        # batch_sizes never grow, so each size but the last is shrunk from exactly once.
        different = set(sizes)
        self._add(sequences, steps, sum(sizes), last_rows)
        self.shrink_rows += sum(different) - last_rows
        self.slice_rows += (len(different) - 1) * sequences

    def add_padded(self, sequences: int, steps: int) -> None:
        self._add(sequences, steps, sequences * steps, sequences)

    def _add(self, sequences: int, steps: int, rows: int, last_rows: int) -> None:
        self.calls += 1
        self.sequences += sequences
        self.steps += steps
        self.rows += rows
        self.padded_rows += sequences * steps
        self.last_rows += last_rows
        self.step_rows += steps * rows

    def tally(self, *, packed: bool) -> Tally:
        """The tally; for padded calls with their true lengths unknown."""
        names = ("rows", "steps", "last_rows", "step_rows", "shrink_rows", "slice_rows")
        real: dict[str, Any] = {name: getattr(self, name) for name in names}
        equivalent: dict[str, Any] = {f"packed_{name}": value if packed else None for name, value in real.items()}
        return Tally(
            calls=self.calls,
            sequences=self.sequences,
            padded_rows=self.padded_rows,
            first_rows=self.sequences,
            padded_steps=self.steps,
            **real,
            **equivalent,
        )
