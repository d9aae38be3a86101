"""The tally of a whole data set, batch after batch, without a Python step for each sequence."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterable
from typing import Any

from rnncost.counting.lengths import check_lengths
from rnncost.counting.sample import SAMPLE_SIZE, BatchSample
from rnncost.counting.shape import BatchShape
from rnncost.counting.tally import Tally
from rnncost.errors import LengthsError

_INT64_SAFE = 2**62


class Dataset:
    """A data set cut into batches in its order; the last batch may be smaller.

    Args:
        lengths: steps of each sequence.
        batch_size: sequences a batch; without it all are one batch.
        packed: batches are run packed, or as padded rectangles.
        padded_length: width that every batch is padded to, where more than its longest.

    Raises:
        LengthsError: for lengths, a batch size or a width that cannot be.
    """

    def __init__(
        self,
        lengths: Iterable[Any],
        *,
        batch_size: int | None = None,
        packed: bool = True,
        padded_length: int | None = None,
    ) -> None:
        self._lengths = check_lengths(lengths)
        self._size = _batch_size(batch_size, len(self._lengths))
        self._packed = packed
        self._width = padded_length
        longest = max(self._lengths)
        if padded_length is not None:
            check_lengths([padded_length], source="padded_length")
            if padded_length < longest:
                raise LengthsError(f"padded_length is {padded_length}, but the longest sequence has {longest} steps")

    def sample(self, *, seed: str = "") -> tuple[BatchSample, ...]:
        """A bounded random sample of the batches."""
        draw = random.Random(seed)
        priorities = sorted((draw.getrandbits(53), start) for start in range(0, len(self._lengths), self._size))
        return tuple(
            BatchSample(
                priority=priority,
                shape=BatchShape.from_lengths(
                    self._lengths[start : start + self._size], packed=self._packed, padded_length=self._width
                ),
            )
            for priority, start in priorities[:SAMPLE_SIZE]
        )

    def tally(self) -> Tally:
        """The sums over all batches."""
        import numpy as np  # late: the command line and the pytest plugin start without it

        checked, size, padded_length = self._lengths, self._size, self._width
        widest = max(max(checked), padded_length or 0)
        exact = object if len(checked) * size * widest * widest > _INT64_SAFE else np.int64
        batches = -(-len(checked) // size)
        cells = np.zeros(batches * size, dtype=exact)
        cells[: len(checked)] = checked
        # Each row one batch, longest first; a short last batch ends in zeros.
        rows = -np.sort(-cells.reshape(batches, size), axis=1)
        steps = rows[:, 0]
        sequences = (rows > 0).sum(axis=1).astype(exact)
        real = rows.sum(axis=1)
        shorter = np.concatenate([rows[:, 1:], np.zeros((batches, 1), dtype=exact)], axis=1)
        # After l_k steps the batch shrinks to k − 1 or fewer: each k with l_k > l_{k+1} is a batch size.
        is_size = rows > shorter
        sizes = (is_size * np.arange(1, size + 1, dtype=exact)).sum(axis=1)
        different = is_size.sum(axis=1).astype(exact)
        last = (rows == steps[:, None]).sum(axis=1).astype(exact)
        width = steps if padded_length is None else np.full(batches, padded_length, dtype=exact)
        packed_sums = {
            "rows": real,
            "steps": steps,
            "last_rows": last,
            "step_rows": steps * real,
            "shrink_rows": sizes - last,
            "slice_rows": (different - 1) * sequences,
        }
        rectangle = sequences * width
        padded_sums = {"rows": rectangle, "steps": width, "last_rows": sequences, "step_rows": width * rectangle}
        executed = packed_sums if self._packed else padded_sums
        sums: dict[str, Any] = {name: int(value.sum()) for name, value in executed.items()}
        sums.update({f"packed_{name}": int(value.sum()) for name, value in packed_sums.items()})
        return Tally(
            calls=batches,
            sequences=len(checked),
            first_rows=len(checked),
            padded_rows=int(rectangle.sum()),
            padded_steps=int(width.sum()),
            **sums,
        )


def _batch_size(batch_size: int | None, sequences: int) -> int:
    if batch_size is None:
        return sequences
    try:
        size = operator.index(batch_size)
    except TypeError:
        size = 0
    if size < 1 or isinstance(batch_size, bool):
        raise LengthsError(f"batch_size is {batch_size!r}; it must be an integer of at least 1")
    return min(size, sequences)
