"""The terminal table: the totals line, a row a layer, the exact totals, then notes."""

from __future__ import annotations

import io
import sys
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rnncost.counting.opcount import OpCount
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.notes import notes
from rnncost.reporting.report import CostReport
from rnncost.units import format_count, format_fraction

WIDTH = 80
_UNKNOWN = "?"


class TextRenderer:
    """Draws a report as plain text.

    Args:
        width: columns; 80 by default.
    """

    def __init__(self, *, width: int = WIDTH) -> None:
        self._width = width

    def render(self, report: CostReport) -> str:
        """The report as text without colour."""
        stream = io.StringIO()
        console = Console(file=stream, width=self._width, color_system=None, force_terminal=False)
        console.print(_report(report))
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def print_report(report: CostReport, file: TextIO | None = None) -> None:
    """Prints the table: in colour on a terminal, as plain text of 80 columns elsewhere."""
    stream = sys.stdout if file is None else file
    console = Console(file=stream)
    if console.is_terminal:
        console.print(_report(report))
    else:
        stream.write(TextRenderer().render(report))


def _report(report: CostReport) -> RenderableType:
    parts: list[RenderableType] = [Text(_headline(report), style="bold")]
    if report.layers:
        parts += [_layer_table(report), _totals_table(report)]
    parts += [Text(f"* {note}") for note in notes(report)]
    return Group(*parts)


def _headline(report: CostReport) -> str:
    tallies = [layer.tally for layer in report.layers]
    rows, padded = sum(tally.rows for tally in tallies), sum(tally.padded_rows for tally in tallies)
    costs = report.costs
    marker = "PARTIAL " if report.partial else ""
    return (
        f"{marker}{format_fraction(costs.saved_fraction)} saved: {rows:,} rows executed of {padded:,} padded; "
        f"{costs.executed.macs:,} MACs executed."
    )


def _layer_table(report: CostReport) -> Table:
    table = _table()
    table.add_column("layer", ratio=1, overflow="fold", min_width=16)
    for heading in (
        "calls",
        "rows\nexec.",
        "rows\npadded",
        "MACs\nexec.",
        "mults\nexec.",
        "adds\nexec.",
        "saved\nmults",
        "wasted\nmults",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for layer in report.layers:
        table.add_row(Text(f"{printable(layer.name)}\n{layer.spec}"), *_layer_cells(layer))
    return table


def _layer_cells(layer: LayerCost) -> list[str]:
    tally, costs = layer.tally, layer.costs
    executed = costs.executed
    counts = (tally.calls, tally.rows, tally.padded_rows, executed.macs, executed.mults, executed.adds)
    wasted = _UNKNOWN if costs.wasted is None else format_fraction(costs.wasted_fraction)
    return [*map(format_count, counts), format_fraction(costs.saved_fraction), wasted]


def _totals_table(report: CostReport) -> Table:
    table = _table()
    table.add_column("total operations" if not report.partial else "total operations (partial)", ratio=1)
    for heading in ("MACs", "mults", "adds", "activations"):
        table.add_column(heading, justify="right", no_wrap=True)
    costs = report.costs
    for name, count in (
        ("executed", costs.executed),
        ("padded", costs.padded),
        ("packed", costs.packed),
        ("saved", costs.saved),
        ("wasted", costs.wasted),
    ):
        table.add_row(name, *_total_cells(count))
    return table


def _total_cells(count: OpCount | None) -> list[str]:
    if count is None:
        return [_UNKNOWN] * 4
    return [f"{number:,}" for number in (count.macs, count.mults, count.adds, count.activations)]


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="", show_edge=False)


def printable(name: str) -> str:
    """A module's name without characters that would steer a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)
