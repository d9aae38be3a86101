"""A comparison in the terminal: the verdict, a row a layer, the exact totals, then notes."""

from __future__ import annotations

import textwrap
from typing import TextIO

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rnncost.reporting.comparison import Comparison, Figures, LayerChange, exact
from rnncost.reporting.renderers.comparison.rows import change_of_mults, totals
from rnncost.reporting.renderers.text import NARROWEST, WIDTH, exact_or_short, plain_table, plain_text, print_drawing
from rnncost.units import format_count

_STYLES = {"same": "dim", "added": "yellow", "removed": "yellow", "renamed": "yellow", "changed": "bold"}


class TextComparison:
    """Draws a comparison as plain text.

    Args:
        width: columns; below 80 the figures are stacked, and below 32 lines do not get narrower.
    """

    def __init__(self, *, width: int = WIDTH) -> None:
        self._width = max(width, NARROWEST)

    def render(self, comparison: Comparison) -> str:
        """The comparison as text without colour."""
        return plain_text(_comparison(comparison, self._width), self._width)


def print_comparison(comparison: Comparison, file: TextIO | None = None) -> None:
    """Prints the table: in colour and as wide as it is on a terminal, as plain text of 80 columns elsewhere."""
    print_drawing(
        file,
        lambda width: _comparison(comparison, width),
        lambda width, encoding: TextComparison(width=width).render(comparison),
    )


def _comparison(comparison: Comparison, width: int) -> RenderableType:
    style = "bold red" if comparison.regressed else "bold"
    wrapped = min(width, WIDTH)
    headline = textwrap.fill(f"{comparison.verdict}: {comparison.summary}", wrapped)
    parts: list[RenderableType] = [Text(headline, style=style), Text()]
    if width < WIDTH:
        parts += [_stacked(comparison, width)]
    else:
        parts += [_layer_table(comparison, width), Text()] if comparison.layers else []
        parts += [_totals_table(comparison, width)]
    lines = [*(f"REGRESSION {each}" for each in comparison.regressions), *comparison.notes]
    if lines:
        parts.append(Text())
    parts += [Text(textwrap.fill(f"* {line}", wrapped, subsequent_indent="  ")) for line in lines]
    return Group(*parts)


def _stacked(comparison: Comparison, width: int) -> Text:
    """The figures of each layer under its name, then the totals, for terminals too narrow for a table."""
    lines = []
    for layer in comparison.layers:
        rows, rows_now, mults, mults_now, change, wasted = _cells(layer)
        figures = (
            f"{layer.status}; rows {rows} -> {rows_now}",
            f"mults {mults} -> {mults_now}{f' ({change})' if change else ''}",
            f"wasted now {wasted}",
        )
        lines += [layer.label_of_name, layer.label_of_spec]
        lines += [textwrap.fill(each, width, initial_indent="  ", subsequent_indent="    ") for each in figures] + [""]
    lines.append("total (partial)" if comparison.partial else "total")
    for title, before, after, _, change in totals(comparison):
        figure = f"{title} {_fitted(before)} -> {_fitted(after)} ({change})"
        lines.append(textwrap.fill(figure, width, initial_indent="  ", subsequent_indent="    "))
    return Text("\n".join(lines), overflow="fold")


def _layer_table(comparison: Comparison, width: int) -> Table:
    table = plain_table(width)
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


def _totals_table(comparison: Comparison, width: int) -> Table:
    table = plain_table(width)
    table.add_column("total (partial)" if comparison.partial else "total", no_wrap=True, min_width=15)
    for heading in ("baseline", "current", "difference", "change"):
        table.add_column(heading, justify="right", no_wrap=True, ratio=1)
    for title, before, after, difference, change in totals(comparison):
        table.add_row(title, *(_fitted(each) for each in (before, after, difference)), change)
    return table


def _fitted(figure: int | None) -> str:
    """All digits, where they fit a fifth of the line."""
    return exact(figure) if figure is None else exact_or_short(figure, 14)
