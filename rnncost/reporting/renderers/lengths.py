"""One batch explained: its occupancy, its batch_sizes, and what a dot product along time costs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from fractions import Fraction

from rnncost.counting.shape import BatchShape
from rnncost.reporting.occupancy import occupancy
from rnncost.units import format_count, format_fraction

_WIDTH = 80
_COLUMN = 14
_MAX_ROWS = 24
_MAX_RUNS = 40
_MAX_STEPS_LISTED = 40


class LengthsRenderer:
    """Draws what packing means for one batch.

    Args:
        ascii_only: draw with ``#``, ``+`` and ``.`` instead of block characters.
    """

    def __init__(self, *, ascii_only: bool = False) -> None:
        self._real, self._mixed, self._filler = "#+." if ascii_only else "█▒·"

    def render(self, lengths: Iterable[int]) -> str:
        """The explanation of a batch with these lengths, in any order."""
        shape = BatchShape.from_lengths(lengths)
        parts = [self._summary(shape), self._picture(shape), _batch_sizes(shape), _operations(shape)]
        return "\n\n".join(parts) + "\n"

    def _summary(self, shape: BatchShape) -> str:
        real, cells = shape.rows, shape.padded_rows
        share = format_fraction(Fraction(cells - real, cells))
        sequences = "1 sequence" if shape.sequences == 1 else f"{shape.sequences:,} sequences"
        return textwrap.fill(
            f"{sequences}, the longest of {shape.steps:,} steps: of the {cells:,} cells of the padded rectangle, "
            f"{real:,} are real ({self._real}) and {cells - real:,} are padding ({self._filler}), {share}.",
            _WIDTH,
        )

    def _picture(self, shape: BatchShape) -> str:
        margin = max(len("length"), len(_shown(shape.steps)))
        picture = occupancy(shape, max_rows=_MAX_ROWS, max_columns=_WIDTH - margin - 2)
        scale = []
        if picture.sequences_per_row > 1:
            scale.append(f"a row stands for {picture.sequences_per_row:,} sequences")
        if picture.steps_per_column > 1:
            scale.append(f"a column for {picture.steps_per_column:,} steps")
        if scale:
            scale.append(f"{self._mixed} is partly real")
        header = f"{'length':>{margin}}  steps, longest sequence first"
        lines = [f"{header} ({', '.join(scale)})" if scale else header]
        for length, filled in zip(picture.lengths, picture.filled, strict=True):
            lines.append(f"{_shown(length):>{margin}}  {''.join(map(self._cell, filled))}")
        return "\n".join("\n".join(textwrap.wrap(line, _WIDTH)) if "(" in line else line for line in lines)

    def _cell(self, filled: Fraction) -> str:
        if filled == 1:
            return self._real
        return self._mixed if filled else self._filler


def _batch_sizes(shape: BatchShape) -> str:
    if shape.steps <= _MAX_STEPS_LISTED:
        sizes = " ".join(map(str, shape.batch_sizes))
        title = "batch_sizes, the sequences that still run at each step:"
    else:
        runs = shape.batch_size_runs
        shown = [f"{size}x{steps}" for size, steps in runs[:_MAX_RUNS]]
        more = [f"... {len(runs) - _MAX_RUNS:,} more"] if len(runs) > _MAX_RUNS else []
        sizes = ", ".join([*shown, *more])
        title = "batch_sizes, the sequences that still run at each step, as size x steps:"
    return title + "\n" + textwrap.fill(sizes, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _operations(shape: BatchShape) -> str:
    counts = shape.length_counts or ()
    rows: list[tuple[str, int | None, int | None, int | None]] = [
        (_shown(length), number, length, length - 1) for length, number in counts
    ]
    if len(rows) > _MAX_ROWS:
        left_out = len(rows) - _MAX_ROWS
        rows = rows[:_MAX_ROWS]
        rows.append((f"... {left_out:,} more", None, None, None))
    packed = (shape.rows, shape.rows - shape.sequences)
    padded = (shape.padded_rows, shape.padded_rows - shape.sequences)
    saved = (padded[0] - packed[0], padded[1] - packed[1])
    lines = [
        "A dot product along time, of a sequence of n steps: n mults and n - 1 adds.",
        _line("length", "sequences", "mults each", "adds each"),
        *(_line(length, *map(_shown, numbers)) for length, *numbers in rows),
        _line("", "", "mults", "adds"),
        *(
            _line(name, *map(_shown, (shape.sequences, mults, adds)))
            for name, (mults, adds) in (("packed", packed), ("padded", padded), ("saved", saved))
        ),
    ]
    return "\n".join(lines)


def _shown(number: int | None) -> str:
    """The number in full, as long as it fits its column."""
    if number is None:
        return ""
    full = f"{number:,}"
    return full if len(full) <= _COLUMN - 2 else format_count(number)


def _line(*cells: str) -> str:
    first, *others = cells
    return (f"  {first:<{_COLUMN}}" + "".join(f"{cell:>{_COLUMN}}" for cell in others)).rstrip()
