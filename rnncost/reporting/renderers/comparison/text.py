"""A comparison in the terminal: the verdict, a row a layer, the exact totals, then notes."""

from __future__ import annotations

import io
import sys
import textwrap
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rnncost.reporting.comparison import Comparison, Figures, LayerChange, exact
from rnncost.reporting.renderers.comparison.rows import change_of_mults, totals
from rnncost.reporting.renderers.glyphs import fit_encoding
from rnncost.reporting.renderers.text import WIDTH
from rnncost.units import format_count

_STYLES = {"same": "dim", "added": "yellow", "removed": "yellow", "renamed": "yellow", "changed": "bold"}


class TextComparison:
    """Draws a comparison as plain text.

    Args:
        width: columns; 80 by default, and never fewer.
    """

    def __init__(self, *, width: int = WIDTH) -> None:
        self._width = max(width, WIDTH)

    def render(self, comparison: Comparison) -> str:
        """The comparison as text without colour."""
        stream = io.StringIO()
        console = Console(file=stream, width=self._width, color_system=None, force_terminal=False)
        console.print(_comparison(comparison))
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def print_comparison(comparison: Comparison, file: TextIO | None = None) -> None:
    """Prints the table: in colour on a terminal, as plain text of 80 columns elsewhere."""
    stream = sys.stdout if file is None else file
    if stream is None:
        return
    console = Console(file=stream)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if console.is_terminal and encoding.lower().replace("-", "") == "utf8":
        console.width = max(console.width, WIDTH)
        console.print(_comparison(comparison))
    else:
        stream.write(fit_encoding(TextComparison().render(comparison), encoding))


def _comparison(comparison: Comparison) -> RenderableType:
    style = "bold red" if comparison.regressed else "bold"
    headline = textwrap.fill(f"{comparison.verdict}: {comparison.summary}", WIDTH)
    parts: list[RenderableType] = [Text(headline, style=style), Text()]
    if comparison.layers:
        parts += [_layer_table(comparison), Text()]
    parts += [_totals_table(comparison)]
    lines = [*(f"REGRESSION {each}" for each in comparison.regressions), *comparison.notes]
    if lines:
        parts.append(Text())
    parts += [Text(textwrap.fill(f"* {line}", WIDTH, subsequent_indent="  ")) for line in lines]
    return Group(*parts)


def _layer_table(comparison: Comparison) -> Table:
    table = _table()
    table.add_column("layer", ratio=1, overflow="fold")
    table.add_column("status", no_wrap=True)
    for heading in ("rows\nbefore", "rows\nnow", "mults\nbefore", "mults\nnow", "mults\nchange", "wasted\nnow"):
        table.add_column(heading, justify="right", no_wrap=True)
    for layer in comparison.layers:
        label = Text(f"{layer.label_of_name}\n{layer.label_of_spec}")
        table.add_row(label, Text(layer.status, style=_STYLES[layer.status]), *_cells(layer))
    return table


def _cells(layer: LayerChange) -> list[str]:
    before, after = layer.baseline, layer.current
    return [
        _short(before, "rows"),
        _short(after, "rows"),
        _short(before, "mults"),
        _short(after, "mults"),
        change_of_mults(layer),
        _short(after, "wasted"),
    ]


def _short(figures: Figures | None, name: str) -> str:
    if figures is None:
        return "-"
    figure = figures.of_metric(name)
    return "?" if figure is None else format_count(figure)


def _totals_table(comparison: Comparison) -> Table:
    table = _table()
    table.add_column("total (partial)" if comparison.partial else "total", no_wrap=True, min_width=15)
    for heading in ("baseline", "current", "difference", "change"):
        table.add_column(heading, justify="right", no_wrap=True, ratio=1)
    for title, before, after, difference, change in totals(comparison):
        table.add_row(title, *(_fitted(each) for each in (before, after, difference)), change)
    return table


def _fitted(figure: int | None) -> str:
    """All digits, where they fit a fifth of the line."""
    full = exact(figure)
    return full if figure is None or len(full) <= 14 else format_count(figure)


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="", show_edge=False)
