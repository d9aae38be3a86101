"""A bounded random sample of batch shapes that merges like a sum, in any order."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rnncost.counting.shape import BatchShape

SAMPLE_SIZE = 32


class BatchSample(msgspec.Struct, frozen=True, kw_only=True):
    """One batch that was seen, with the random number that decided to keep it.

    The batches with the lowest ``priority`` are a uniform sample of all batches, and the
    lowest of two samples are one of their union ("bottom-k sampling").
    """

    priority: int
    shape: BatchShape


def keep_lowest(samples: Iterable[BatchSample]) -> tuple[BatchSample, ...]:
    """The sample of a union: at most ``SAMPLE_SIZE`` batches, in a fixed order."""
    return tuple(sorted(samples, key=_order)[:SAMPLE_SIZE])


def _order(sample: BatchSample) -> tuple[int, bool, int, int, tuple[tuple[int, int], ...]]:
    shape = sample.shape
    return (sample.priority, shape.packed, shape.sequences, shape.padded_steps, shape.length_counts or ())
