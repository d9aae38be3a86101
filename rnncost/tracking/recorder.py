"""Where hooks leave what they read: a queue of sizes, summed in batches, and a bounded sample."""

from __future__ import annotations

import random
import threading
from bisect import insort
from collections import deque
from collections.abc import Sequence
from typing import Any

from rnncost.counting.sample import SAMPLE_SIZE, BatchSample
from rnncost.counting.shape import BatchShape
from rnncost.counting.tally import CallKind, CallTally, Tally

# The queue is summed when it is this long, which bounds memory and keeps the cost in the hook low:
# summing many calls in one loop is several times cheaper than one by one, between two kernels.
QUEUE_LENGTH = 256
_PRIORITY_BITS = 53
_SUMS = ("calls", "sequences", "steps", "rows", "padded_rows", "last_rows", "step_rows")


class Recorder:
    """Sums of one module's calls. Thread-safe.

    Args:
        seed: decides which batches the sample keeps; the module's name.

    Attributes:
        queue: calls not yet summed: a list of batch sizes for a packed one, (sequences, steps)
            for a padded one. A hook appends and calls :meth:`sum_queue` once it is long.
    """

    __slots__ = ("_lock", "_packed", "_padded", "_random_bits", "_samples", "_threshold", "queue")

    def __init__(self, seed: str) -> None:
        self.queue: deque[list[int] | tuple[int, int]] = deque()
        self._lock = threading.Lock()
        # In the order of _SUMS.
        self._packed = [0] * len(_SUMS)
        self._padded = [0] * len(_SUMS)
        self._random_bits = random.Random(seed).getrandbits
        self._samples: list[BatchSample] = []
        self._threshold = 1 << _PRIORITY_BITS

    def sum_queue(self) -> None:
        """Adds the queued calls to the sums."""
        with self._lock:
            while self.queue:
                call = self.queue.popleft()
                if isinstance(call, list):
                    rows = sum(call)
                    _add(self._packed, sequences=call[0], steps=len(call), rows=rows, last_rows=call[-1])
                else:
                    sequences, steps = call
                    rows = sequences * steps
                    _add(self._padded, sequences=sequences, steps=steps, rows=rows, last_rows=sequences)
                priority = self._random_bits(_PRIORITY_BITS)
                if priority < self._threshold:
                    self._keep(BatchSample(priority=priority, shape=_shape(call)))

    def _keep(self, sample: BatchSample) -> None:
        insort(self._samples, sample, key=lambda kept: kept.priority)
        if len(self._samples) >= SAMPLE_SIZE:
            del self._samples[SAMPLE_SIZE:]
            self._threshold = self._samples[-1].priority

    def snapshot(self) -> tuple[tuple[CallTally, ...], tuple[BatchSample, ...]]:
        """The sums so far, one tally a kind of call, and the sample."""
        self.sum_queue()
        with self._lock:
            packed, padded, samples = _tally(self._packed), _tally(self._padded), tuple(self._samples)
        tallies = []
        if padded.calls:
            tallies.append(CallTally(kind=CallKind(packed=False), forward=padded))
        if packed.calls:
            tallies.append(CallTally(kind=CallKind(packed=True), forward=_all_real(packed)))
        return tuple(tallies), samples


def _add(sums: list[int], *, sequences: int, steps: int, rows: int, last_rows: int) -> None:
    sums[0] += 1
    sums[1] += sequences
    sums[2] += steps
    sums[3] += rows
    sums[4] += sequences * steps
    sums[5] += last_rows
    sums[6] += steps * rows


def _shape(call: list[int] | tuple[int, int]) -> BatchShape:
    if isinstance(call, list):
        return BatchShape.from_batch_sizes(call)
    return BatchShape.rectangle(sequences=call[0], steps=call[1])


def _tally(sums: Sequence[int]) -> Tally:
    """The tally of calls whose true lengths are unknown."""
    named = dict(zip(_SUMS, sums, strict=True))
    unknown: dict[str, Any] = dict.fromkeys(("packed_rows", "packed_steps", "packed_last_rows", "packed_step_rows"))
    return Tally(first_rows=named["sequences"], padded_steps=named["steps"], **named, **unknown)


def _all_real(tally: Tally) -> Tally:
    """The same sums, where every executed row was a real one."""
    return Tally(
        **{name: getattr(tally, name) for name in _SUMS},
        first_rows=tally.first_rows,
        padded_steps=tally.padded_steps,
        packed_rows=tally.rows,
        packed_steps=tally.steps,
        packed_last_rows=tally.last_rows,
        packed_step_rows=tally.step_rows,
    )
