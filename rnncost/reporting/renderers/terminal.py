"""The pictures of the terminal report: a bar a layer, and the occupancy of the emptiest batch."""

from __future__ import annotations

import itertools
import textwrap
from fractions import Fraction

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from rnncost.reporting.occupancy import occupancy
from rnncost.reporting.renderers.bars import LEGEND, PARTS, BarParts, columns
from rnncost.reporting.renderers.glyphs import Glyphs
from rnncost.reporting.report import CostReport
from rnncost.reporting.seen import SeenBatch, known_batches, worst_batch
from rnncost.units import format_count, format_fraction, printable

_MAX_BARS = 20
_MAX_ROWS = 8
_MAX_COLUMNS = 60
_MAX_TEXT = 80
# Keeps a mark and its meaning on one line, and is drawn as a space.
_UNBROKEN = "\xa0"
_STYLES = {"useful": "green", "wasted": "red", "unknown": "yellow", "extra": "magenta", "saved": "cyan"}


def pictures(report: CostReport, *, width: int, glyphs: Glyphs) -> list[Text]:
    """Both pictures, each followed by an empty line; none of what there is nothing to see."""
    return [*_bars(report, width, glyphs), *_emptiest(report, width, glyphs)]


def _bars(report: CostReport, width: int, glyphs: Glyphs) -> list[Text]:
    ran = [(layer, BarParts.of(layer.costs)) for layer in report.layers if layer.source != "estimate"]
    ran = [(layer, parts) for layer, parts in ran if parts.total]
    if not ran:
        return []
    smallest_drawn = sorted((parts.total for _, parts in ran), reverse=True)[:_MAX_BARS][-1]
    drawn = [(layer, parts) for layer, parts in ran if parts.total >= smallest_drawn][:_MAX_BARS]
    names = [_shortened(printable(layer.name), max(width // 3, 8)) for layer, _ in drawn]
    margin = max(map(cell_len, names))
    longest = max(parts.total for _, parts in drawn)
    lines = [_legend([parts for _, parts in drawn], longest, width, glyphs)]
    for name, (_, parts) in zip(names, drawn, strict=True):
        bar = columns(parts.mults, longest=longest, width=width - margin - 2)
        cells = [(getattr(glyphs, part) * number, _STYLES[part]) for part, number in zip(PARTS, bar, strict=True)]
        lines.append(Text.assemble(set_cell_size(name, margin), "  ", *cells))
    if len(ran) > len(drawn):
        more = len(ran) - len(drawn)
        lines.append(Text(f"(and {more:,} smaller {'layer' if more == 1 else 'layers'})"))
    return [*lines, Text()]


def _legend(bars: list[BarParts], longest: int, width: int, glyphs: Glyphs) -> Text:
    """What the marks mean that are there, and the scale."""
    there = [part for part in PARTS if any(getattr(parts, part) for parts in bars)]
    marks = {part: f"{getattr(glyphs, part)}{_UNBROKEN}{LEGEND[part]}" for part in there}
    wrapped = _wrapped(f"mults: {', '.join(marks.values())}; the longest bar is {format_count(longest)}", width)
    legend = Text(wrapped.replace(_UNBROKEN, " "))
    for part in there:
        start = wrapped.index(getattr(glyphs, part) + _UNBROKEN)
        legend.stylize(_STYLES[part], start, start + 1)
    return legend


def _wrapped(line: str, width: int, indent: int = 0) -> str:
    """The line in as many as it takes, no mark apart from its meaning."""
    return textwrap.fill(line, min(width, _MAX_TEXT), subsequent_indent=" " * indent)


def _shortened(name: str, width: int) -> str:
    """The end of a name that is too long: it tells layers of a model apart."""
    if cell_len(name) <= width:
        return name
    while cell_len(name) > width - 2:
        name = name[1:]
    return f"..{name}"


def _emptiest(report: CostReport, width: int, glyphs: Glyphs) -> list[Text]:
    worst = worst_batch(report)
    if worst is None or worst.real_share == 1:  # a full rectangle is no picture
        return []
    return [*_batch(worst, len(known_batches(report)), width, glyphs), Text()]


def _batch(batch: SeenBatch, calls: int, width: int, glyphs: Glyphs) -> list[Text]:
    shape = batch.shape
    margin = max(len("length"), len(_length(shape.padded_steps)))
    picture = occupancy(shape, max_rows=_MAX_ROWS, max_columns=min(width - margin - 2, _MAX_COLUMNS))
    which = f"emptiest of {calls:,} sampled calls" if calls > 1 else "one call"
    sequences = "1 sequence" if shape.sequences == 1 else f"{shape.sequences:,} sequences"
    title = (
        f"{which}: {printable(batch.layer.name)}, {'packed' if shape.packed else 'padded'}, "
        f"{sequences} x {shape.padded_steps:,} steps, {format_fraction(batch.real_share)} real"
    )
    scale = [f"{glyphs.real}{_UNBROKEN}real"]
    if any(0 < share < 1 for row in picture.filled for share in row):
        scale.append(f"{glyphs.mixed}{_UNBROKEN}partly real")
    scale.append(f"{glyphs.filler}{_UNBROKEN}padding{', not run' if shape.packed else ', run as well'}")
    if picture.sequences_per_row > 1:
        scale.append(f"a row is {picture.sequences_per_row:,} sequences")
    if picture.steps_per_column > 1:
        scale.append(f"a column {picture.steps_per_column:,} steps")
    legend = _wrapped(f"{'length':>{margin}}  {'; '.join(scale)}", width, margin + 2).replace(_UNBROKEN, " ")
    lines = [Text(_wrapped(title, width)), Text(legend)]
    for length, row in zip(picture.lengths, picture.filled, strict=True):
        runs = itertools.groupby(_cell(share, glyphs) for share in row)
        cells = [(glyph * sum(1 for _ in run), style) for (glyph, style), run in runs]
        lines.append(Text.assemble(f"{_length(length):>{margin}}  ", *cells))
    return lines


def _cell(share: Fraction, glyphs: Glyphs) -> tuple[str, str]:
    if share == 1:
        return glyphs.real, "green"
    return (glyphs.mixed, "yellow") if share else (glyphs.filler, "cyan")


def _length(length: int) -> str:
    full = f"{length:,}"
    return full if len(full) <= 12 else format_count(length)
