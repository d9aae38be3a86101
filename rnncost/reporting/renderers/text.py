"""The terminal report: the totals line, a row a layer, pictures, the exact totals, then notes."""

from __future__ import annotations

import io
import re
import sys
import textwrap
from collections.abc import Callable
from typing import TextIO

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rnncost.counting.opcount import OpCount
from rnncost.reporting.costs import Costs
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.notes import notes
from rnncost.reporting.renderers.glyphs import ASCII, BLOCKS, Glyphs, can_show, fit_encoding
from rnncost.reporting.renderers.terminal import pictures
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import VERDICT_ROUNDS, LayoutTiming, RunTime, TimingConditions, realised_savings
from rnncost.units import format_bytes, format_count, format_fraction, format_seconds, printable

WIDTH = 80
NARROWEST = 32
# Below this a row a layer no longer fits, and its figures are stacked.
_STACKED = 56
_WIDEST = 140
_UNKNOWN = "?"
_SOURCES = {"module": "", "subclass": ", subclass", "reader": ", by reader", "kernel": "", "estimate": ""}


class TextRenderer:
    """Draws a report as plain text.

    Args:
        width: columns; below 80 fewer figures are shown, and below 32 lines do not get narrower.
        ascii_only: draw pictures in ASCII instead of block characters.
    """

    def __init__(self, *, width: int = WIDTH, ascii_only: bool = False) -> None:
        self._width = max(width, NARROWEST)
        self._glyphs = ASCII if ascii_only else BLOCKS

    def render(self, report: CostReport) -> str:
        """The report as text without colour."""
        return plain_text(_report(report, self._width, self._glyphs), self._width)


def print_report(report: CostReport, file: TextIO | None = None) -> None:
    """Prints the report: on a terminal in colour and as wide as it is, elsewhere as plain text of 80 columns.

    The environment variable ``NO_COLOR`` turns colours off. A stream that cannot show a character
    gets ASCII pictures, and the escape of what else it lacks.
    """

    def plain(width: int, encoding: str) -> str:
        ascii_only = not can_show("".join(msgspec.structs.astuple(BLOCKS)), encoding)
        return TextRenderer(width=width, ascii_only=ascii_only).render(report)

    print_drawing(file, lambda width: _report(report, width, BLOCKS), plain)


def print_drawing(file: TextIO | None, draw: Callable[[int], RenderableType], plain: Callable[[int, str], str]) -> None:
    """Prints in colour on a terminal that shows UTF-8, as plain text elsewhere.

    Args:
        file: where to; standard output by default.
        draw: draws in so many columns.
        plain: text without colour, given the columns and the encoding.
    """
    stream = sys.stdout if file is None else file
    if stream is None:  # closed, as by >&-; print() is silent then, too
        return
    console = Console(file=stream)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    width = max(console.width, NARROWEST) if console.is_terminal else WIDTH
    if console.is_terminal and encoding.lower().replace("-", "") == "utf8":
        console.width = width
        console.print(draw(width))
    else:
        stream.write(fit_encoding(plain(width, encoding), encoding))


def plain_text(drawing: RenderableType, width: int) -> str:
    """What a console without colours shows in so many columns, no line ending in spaces."""
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, force_terminal=False).print(drawing)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _report(report: CostReport, width: int, glyphs: Glyphs) -> RenderableType:
    wrapped = min(width, WIDTH)
    parts: list[RenderableType] = [Text(_headline(report), style="bold")]
    if report.layers:
        parts += [_stacked_layers(report, width)] if width < _STACKED else [_layer_table(report, width), Text()]
        parts += [*pictures(report, width=width, glyphs=glyphs), _totals_table(report, width), Text()]
    if report.run_time is not None:
        parts += [_run_time_table(report.layers, report.run_time, width), Text()]
    for layer in report.layers:
        if layer.timings and layer.conditions is not None:
            parts += [*_timing(layer, layer.conditions, width), Text()]
    for note in notes(report):
        parts.append(Text(textwrap.fill(f"* {note}", wrapped, subsequent_indent="  ", break_long_words=True)))
    for contamination in report.contaminations:
        lines = str(contamination).splitlines()
        parts += [Text(), *(Text(textwrap.fill(printable(line), wrapped, subsequent_indent="    ")) for line in lines)]
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


def _layer_table(report: CostReport, width: int) -> Table:
    table = plain_table(width)
    table.add_column("layer", ratio=1, overflow="fold")
    headings = (
        "calls",
        "rows\nexec.",
        "rows\npadded",
        "MACs\nexec.",
        "mults\nexec.",
        "adds\nexec.",
        "saved\nmults",
        "wasted\nmults",
    )
    shown = range(len(headings)) if width >= WIDTH else (1, 4, 6, 7)
    for index in shown:
        table.add_column(headings[index], justify="right", no_wrap=True)
    for layer in report.layers:
        cells = _layer_cells(layer)
        table.add_row(Text(_label(layer)), *(cells[index] for index in shown))
    return table


def _stacked_layers(report: CostReport, width: int) -> Text:
    """The figures of each layer under its name, for terminals too narrow for a table."""
    lines = []
    for layer in report.layers:
        calls, rows, padded_rows, macs, mults, adds, saved, wasted = _layer_cells(layer)
        figures = (
            f"{rows} of {padded_rows} padded rows in {calls} {'call' if calls == '1' else 'calls'}",
            f"{macs} MACs, {mults} mults, {adds} adds",
            f"mults: {saved} saved, {wasted} wasted",
        )
        lines += ["", _label(layer)]
        lines += [textwrap.fill(each, width, initial_indent="  ", subsequent_indent="    ") for each in figures]
    return Text("\n".join([*lines, ""]), overflow="fold")


def _label(layer: LayerCost) -> str:
    return f"{printable(layer.name)}\n{printable(str(layer.spec))}{_SOURCES[layer.source]}"


def _layer_cells(layer: LayerCost) -> list[str]:
    tally, costs = layer.tally, layer.costs
    executed = costs.executed
    counts = (tally.calls, tally.rows, tally.padded_rows, executed.macs, executed.mults, executed.adds)
    wasted = _UNKNOWN if costs.wasted is None else format_fraction(costs.wasted_fraction)
    return [*map(format_count, counts), format_fraction(costs.saved_fraction), wasted]


def _totals_table(report: CostReport, width: int) -> Table:
    table = plain_table(width)
    table.add_column("operations (partial)" if report.partial else "operations", no_wrap=True, min_width=20)
    # The first column is 20 wide, a short number with its gap 9, and the last heading 12.
    headings = ("MACs", "mults", "adds", "activations")[: 4 if width >= 70 else min(3, (width - 20) // 9)]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True, ratio=1)
    digits = 14 if width >= WIDTH else 7
    if report.backward.executed == OpCount():
        _add_totals(table, "", report.costs, digits)
    else:
        for prefix, costs in (("forward ", report.forward), ("backward ", report.backward), ("total ", report.costs)):
            _add_totals(table, prefix, costs, digits)
    return table


def _add_totals(table: Table, prefix: str, costs: Costs, digits: int) -> None:
    for name in ("executed", "padded", "packed", "saved", "wasted"):
        table.add_row(prefix + name, *_total_cells(getattr(costs, name), digits)[: len(table.columns) - 1])


def _total_cells(count: OpCount | None, digits: int) -> list[str]:
    if count is None:
        return [_UNKNOWN] * 4
    return [exact_or_short(number, digits) for number in (count.macs, count.mults, count.adds, count.activations)]


def exact_or_short(number: int, digits: int) -> str:
    """All digits, where they fit their share of the line."""
    full = f"{number:,}"
    return full if len(full) <= digits else format_count(number)


def _run_time_table(layers: tuple[LayerCost, ...], total: RunTime, width: int) -> Table:
    backward = bool(total.backward_calls or total.backward_untimed)
    table = plain_table(width)
    table.add_column(f"time in this run, {printable(total.device)}", ratio=1, overflow="fold")
    for heading in ("calls", "forward", "a call", *(("calls", "backward", "a call", "total") if backward else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    for layer in layers:
        if layer.run_time is not None:
            table.add_row(Text(printable(layer.name)), *_run_time_cells(layer.run_time, backward=backward))
    table.add_row("total", *_run_time_cells(total, backward=backward))
    return table


def _run_time_cells(time: RunTime, *, backward: bool) -> list[str]:
    forward = _calls_and_seconds(time.forward_calls, time.forward_s)
    if not backward:
        return forward
    return [*forward, *_calls_and_seconds(time.backward_calls, time.backward_s), format_seconds(time.total_s)]


def _calls_and_seconds(calls: int, seconds: float) -> list[str]:
    if not calls:
        return ["0", _UNKNOWN, _UNKNOWN]
    return [format_count(calls), format_seconds(seconds), format_seconds(seconds / calls)]


def _timing(layer: LayerCost, conditions: TimingConditions, width: int) -> list[RenderableType]:
    passes = "forward + backward" if conditions.backward else "forward"
    threads = "1 thread" if conditions.threads == 1 else f"{conditions.threads} threads"
    stopped = ""
    if not conditions.complete:
        stopped = "; INTERRUPTED, so less certain"
    elif not conditions.conclusive:
        stopped = f"; a verdict takes {VERDICT_ROUNDS}, give more --budget"
    title = (
        f"{printable(layer.name)}: time of {passes} on {conditions.device}, {conditions.dtype}, {threads}; "
        f"{_batches(conditions)}, {conditions.rows:,} real of {conditions.padded_rows:,} padded rows; "
        f"{conditions.rounds} interleaved rounds{stopped}"
    )
    table = plain_table(width)
    table.add_column("layout", ratio=1, overflow="fold")
    headings = ("ops\nsaved", "time\nsaved", "ratio to\npadded, 95 %", "verdict", "total", "of it\nforward", "memory")
    shown = slice(None) if width >= WIDTH else slice(4) if width >= _STACKED else slice(2, 4 if width >= 40 else 3)
    for heading in headings[shown]:
        table.add_column(heading, justify="right", no_wrap=True)
    for each in layer.timings:
        name = printable(each.layout)
        if width <= WIDTH:
            # 80 columns are one too few for packed+packing on one line, and with wide figures for bucketed(2).
            name = re.sub(r"(?<=.)(?=[+(])", "\n", name)
        table.add_row(Text(name + ("" if each.exact else " *")), *_timing_cells(each, conditions)[shown])
    lines: list[RenderableType] = [Text(textwrap.fill(printable(title), min(width, WIDTH))), table]
    if not all(each.exact for each in layer.timings):
        lines.append(Text("* results differ from a packed run at real steps or in final states"))
    lines.append(Text(textwrap.fill(printable(layer.advice or ""), min(width, WIDTH)), style="bold"))
    return lines


def _batches(conditions: TimingConditions) -> str:
    number = "a batch" if conditions.batches == 1 else f"{conditions.batches} batches"
    return f"{number} of {conditions.sequences} sequences" + (" together" if conditions.batches > 1 else "")


def _timing_cells(timing: LayoutTiming, conditions: TimingConditions) -> list[str]:
    operations, seconds = realised_savings(timing, conditions)
    saved = [format_fraction(operations), f"{round(seconds, 2) + 0.0:.0%}".replace("%", " %")]
    ratio = _ratio(timing.ratio_to_padded)
    if timing.ratio_low != timing.ratio_high:  # all but padded itself
        ratio += f" {_ratio(timing.ratio_low)}-{_ratio(timing.ratio_high)}"
    memory = _UNKNOWN if timing.peak_bytes is None else format_bytes(timing.peak_bytes)
    return [
        *saved,
        ratio,
        printable(timing.verdict),
        format_seconds(timing.total_s),
        format_seconds(timing.forward_s),
        memory,
    ]


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}"


def plain_table(width: int) -> Table:
    """A table with one line, below its headings; as wide as the console, up to a width that an eye follows."""
    return Table(
        width=min(width, _WIDEST),
        box=SIMPLE_HEAD,
        expand=True,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="",
        show_edge=False,
    )
