"""Where a hook leaves what it read: running sums and a bounded sample, behind one lock."""

from __future__ import annotations

import random
import threading
from bisect import insort
from collections.abc import Sequence
from typing import Any

from rnncost.counting.sample import SAMPLE_SIZE, BatchSample
from rnncost.counting.shape import BatchShape
from rnncost.counting.tally import CallKind, CallTally, Tally

_PRIORITY_BITS = 53


class Recorder:
    """Sums of one module's calls. Thread-safe; a call costs a few integer additions.

    Args:
        seed: decides which batches the sample keeps; the module's name.
    """

    __slots__ = ("_lock", "_packed", "_padded", "_random_bits", "_samples", "_threshold")

    def __init__(self, seed: str) -> None:
        self._lock = threading.Lock()
        # Bare lists in the order of _SUMS: frozen records would double the cost of a hook.
        self._packed = [0] * len(_SUMS)
        self._padded = [0] * len(_SUMS)
        self._random_bits = random.Random(seed).getrandbits
        self._samples: list[BatchSample] = []
        self._threshold = 1 << _PRIORITY_BITS

    def add_packed(self, sizes: Sequence[int], rows: int) -> None:
        """Records a packed call by its ``batch_sizes`` and their sum."""
        sequences = sizes[0]
        steps = len(sizes)
        with self._lock:
            sums = self._packed
            sums[0] += 1
            sums[1] += sequences
            sums[2] += steps
            sums[3] += rows
            sums[4] += sequences * steps
            sums[5] += sizes[-1]
            sums[6] += steps * rows
            priority = self._random_bits(_PRIORITY_BITS)
            if priority < self._threshold:
                self._keep(priority, BatchShape.from_batch_sizes(sizes))

    def add_padded(self, sequences: int, steps: int) -> None:
        """Records a padded call of ``sequences`` × ``steps`` cells."""
        rows = sequences * steps
        with self._lock:
            sums = self._padded
            sums[0] += 1
            sums[1] += sequences
            sums[2] += steps
            sums[3] += rows
            sums[4] += rows
            sums[5] += sequences
            sums[6] += steps * rows
            priority = self._random_bits(_PRIORITY_BITS)
            if priority < self._threshold:
                self._keep(priority, BatchShape.rectangle(sequences=sequences, steps=steps))

    def _keep(self, priority: int, shape: BatchShape) -> None:
        insort(self._samples, BatchSample(priority=priority, shape=shape), key=lambda sample: sample.priority)
        if len(self._samples) >= SAMPLE_SIZE:
            del self._samples[SAMPLE_SIZE:]
            self._threshold = self._samples[-1].priority

    def snapshot(self) -> tuple[tuple[CallTally, ...], tuple[BatchSample, ...]]:
        """The sums so far, one tally a kind of call, and the sample."""
        with self._lock:
            packed, padded, samples = _tally(self._packed), _tally(self._padded), tuple(self._samples)
        tallies = []
        if packed.calls:
            tallies.append(CallTally(kind=CallKind(packed=True), forward=_all_real(packed)))
        if padded.calls:
            tallies.append(CallTally(kind=CallKind(packed=False), forward=padded))
        return tuple(tallies), samples


_SUMS = ("calls", "sequences", "steps", "rows", "padded_rows", "last_rows", "step_rows")


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
