"""The occupancy of a batch: which cells of its rectangle are real, drawn small enough to see."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import msgspec

from rnncost.counting.shape import BatchShape


class Occupancy(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as a grid of blocks, longest sequence on top.

    Attributes:
        steps_per_column: steps that one column stands for.
        sequences_per_row: sequences that one row stands for.
        lengths: length of the longest sequence of each row.
        filled: for each row, the share of real cells of each block, 0 to 1.
    """

    steps_per_column: int
    sequences_per_row: int
    lengths: tuple[int, ...]
    filled: tuple[tuple[Fraction, ...], ...]


def occupancy(shape: BatchShape, *, max_rows: int, max_columns: int) -> Occupancy:
    """The picture of a batch whose lengths are known, in at most so many rows and columns."""
    width = shape.padded_steps
    per_column = max(1, -(-width // max_columns))
    per_row = max(1, -(-shape.sequences // max_rows))
    lengths = itertools.chain.from_iterable([length] * number for length, number in shape.length_counts or ())
    blocks = [list(block) for block in iter(lambda: tuple(itertools.islice(lengths, per_row)), ())]
    starts = range(0, width, per_column)
    return Occupancy(
        steps_per_column=per_column,
        sequences_per_row=per_row,
        lengths=tuple(block[0] for block in blocks),
        filled=tuple(
            tuple(_filled(Counter(block), start, min(start + per_column, width)) for start in starts)
            for block in blocks
        ),
    )


def _filled(lengths: Counter[int], start: int, stop: int) -> Fraction:
    real = sum(max(0, min(length, stop) - start) * number for length, number in lengths.items())
    return Fraction(real, (stop - start) * lengths.total())
