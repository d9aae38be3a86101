"""The occupancy of a batch: which cells of its rectangle are real, drawn small enough to see."""

from __future__ import annotations

from collections.abc import Iterator
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
    blocks = list(_blocks(shape.length_counts or (), per_row))
    starts = range(0, width, per_column)
    return Occupancy(
        steps_per_column=per_column,
        sequences_per_row=per_row,
        lengths=tuple(max(block) for block in blocks),
        filled=tuple(
            tuple(_filled(block, start, min(start + per_column, width)) for start in starts) for block in blocks
        ),
    )


def _blocks(length_counts: tuple[tuple[int, int], ...], size: int) -> Iterator[dict[int, int]]:
    """Groups of so many sequences, as length: number. Counted, not listed: a batch may be of any size."""
    block: dict[int, int] = {}
    room = size
    for length, number in length_counts:
        while number:
            taken = min(number, room)
            block[length] = block.get(length, 0) + taken
            number, room = number - taken, room - taken
            if not room:
                yield block
                block, room = {}, size
    if block:
        yield block


def _filled(lengths: dict[int, int], start: int, stop: int) -> Fraction:
    real = sum(max(0, min(length, stop) - start) * number for length, number in lengths.items())
    return Fraction(real, (stop - start) * sum(lengths.values()))
