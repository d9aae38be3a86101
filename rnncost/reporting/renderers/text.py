"""The terminal table: the totals line, a row a layer, the exact totals, then notes."""

from __future__ import annotations

import io
import sys
import textwrap
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rnncost.counting.opcount import OpCount
from rnncost.reporting.costs import Costs
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.notes import notes
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import VERDICT_ROUNDS, LayoutTiming, RunTime, TimingConditions, advice, realised_savings
from rnncost.units import format_bytes, format_count, format_fraction, format_seconds, printable

WIDTH = 80
_UNKNOWN = "?"
_SOURCES = {"module": "", "subclass": ", subclass", "reader": ", by reader", "kernel": "", "estimate": ""}


class TextRenderer:
    """Draws a report as plain text.

    Args:
        width: columns; 80 by default, and never fewer.
    """

    def __init__(self, *, width: int = WIDTH) -> None:
        self._width = max(width, WIDTH)

    def render(self, report: CostReport) -> str:
        """The report as text without colour."""
        stream = io.StringIO()
        console = Console(file=stream, width=self._width, color_system=None, force_terminal=False)
        console.print(_report(report))
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def print_report(report: CostReport, file: TextIO | None = None) -> None:
    """Prints the table: in colour on a terminal, as plain text of 80 columns elsewhere.

    A stream that cannot show a character gets its escape instead.
    """
    stream = sys.stdout if file is None else file
    console = Console(file=stream)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if console.is_terminal and encoding.lower().replace("-", "") == "utf8":
        console.width = max(console.width, WIDTH)
        console.print(_report(report))
    else:
        stream.write(fit_encoding(TextRenderer().render(report), encoding))


def fit_encoding(text: str, encoding: str) -> str:
    """The text with what ``encoding`` lacks drawn otherwise: lines as ``-``, the rest escaped."""
    try:
        text.encode(encoding)
        return text
    except (UnicodeEncodeError, LookupError):
        plain = text.translate({ord("─"): "-"})
        return plain.encode("ascii", "backslashreplace").decode("ascii")


def _report(report: CostReport) -> RenderableType:
    parts: list[RenderableType] = [Text(_headline(report), style="bold")]
    if report.layers:
        parts += [_layer_table(report), Text(), _totals_table(report), Text()]
    if report.run_time is not None:
        parts += [_run_time_table(report.layers, report.run_time), Text()]
    for layer in report.layers:
        if layer.timings and layer.conditions is not None:
            parts += [*_timing(layer, layer.conditions), Text()]
    for note in notes(report):
        parts.append(Text(textwrap.fill(f"* {note}", WIDTH, subsequent_indent="  ", break_long_words=True)))
    for contamination in report.contaminations:
        parts += [Text(), Text(str(contamination))]
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
    table.add_column("layer", ratio=1, overflow="fold")
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
        table.add_row(Text(f"{printable(layer.name)}\n{layer.spec}{_SOURCES[layer.source]}"), *_layer_cells(layer))
    return table


def _layer_cells(layer: LayerCost) -> list[str]:
    tally, costs = layer.tally, layer.costs
    executed = costs.executed
    counts = (tally.calls, tally.rows, tally.padded_rows, executed.macs, executed.mults, executed.adds)
    wasted = _UNKNOWN if costs.wasted is None else format_fraction(costs.wasted_fraction)
    return [*map(format_count, counts), format_fraction(costs.saved_fraction), wasted]


def _totals_table(report: CostReport) -> Table:
    table = _table()
    table.add_column("operations (partial)" if report.partial else "operations", no_wrap=True, min_width=20)
    for heading in ("MACs", "mults", "adds", "activations"):
        table.add_column(heading, justify="right", no_wrap=True, ratio=1)
    if report.backward.executed == OpCount():
        _add_totals(table, "", report.costs)
    else:
        for prefix, costs in (("forward ", report.forward), ("backward ", report.backward), ("total ", report.costs)):
            _add_totals(table, prefix, costs)
    return table


def _add_totals(table: Table, prefix: str, costs: Costs) -> None:
    for name in ("executed", "padded", "packed", "saved", "wasted"):
        table.add_row(prefix + name, *_total_cells(getattr(costs, name)))


def _total_cells(count: OpCount | None) -> list[str]:
    if count is None:
        return [_UNKNOWN] * 4
    return [_exact(number) for number in (count.macs, count.mults, count.adds, count.activations)]


def _exact(number: int) -> str:
    """All digits, where they fit a quarter of the line."""
    full = f"{number:,}"
    return full if len(full) <= 14 else format_count(number)


def _run_time_table(layers: tuple[LayerCost, ...], total: RunTime) -> Table:
    backward = bool(total.backward_calls or total.backward_untimed)
    table = _table()
    table.add_column(f"time in this run, {total.device}", ratio=1, overflow="fold")
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


def _timing(layer: LayerCost, conditions: TimingConditions) -> list[RenderableType]:
    passes = "forward + backward" if conditions.backward else "forward"
    threads = "1 thread" if conditions.threads == 1 else f"{conditions.threads} threads"
    stopped = ""
    if not conditions.complete:
        stopped = "; INTERRUPTED, so less certain"
    elif conditions.rounds < VERDICT_ROUNDS:
        stopped = f"; a verdict takes {VERDICT_ROUNDS}, give more --budget"
    title = (
        f"{printable(layer.name)}: time of {passes} on {conditions.device}, {conditions.dtype}, {threads}; "
        f"{_batches(conditions)}, {conditions.rows:,} real of {conditions.padded_rows:,} padded rows; "
        f"{conditions.rounds} interleaved rounds{stopped}"
    )
    table = _table()
    table.add_column("layout", ratio=1, overflow="fold")
    for heading in ("ops\nsaved", "time\nsaved", "ratio to\npadded", "verdict", "total", "of it\nforward", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in layer.timings:
        table.add_row(each.layout + ("" if each.exact else " *"), *_timing_cells(each, conditions))
    lines: list[RenderableType] = [Text(textwrap.fill(title, WIDTH)), table]
    if not all(each.exact for each in layer.timings):
        lines.append(Text("* results differ from a packed run at real steps or in final states"))
    lines.append(
        Text(
            textwrap.fill(advice(layer.timings, conditions, layer.best_layout, cell_state=layer.has_cell_state), WIDTH),
            style="bold",
        )
    )
    return lines


def _batches(conditions: TimingConditions) -> str:
    number = "a batch" if conditions.batches == 1 else f"{conditions.batches} batches"
    return f"{number} of {conditions.sequences} sequences" + (" together" if conditions.batches > 1 else "")


def _timing_cells(timing: LayoutTiming, conditions: TimingConditions) -> list[str]:
    operations, seconds = realised_savings(timing, conditions)
    saved = [format_fraction(operations), f"{round(seconds, 2) + 0.0:.0%}".replace("%", " %")]
    interval = f"{_ratio(timing.ratio_to_padded)} ({_ratio(timing.ratio_low)}-{_ratio(timing.ratio_high)})"
    memory = _UNKNOWN if timing.peak_bytes is None else format_bytes(timing.peak_bytes)
    return [*saved, interval, timing.verdict, format_seconds(timing.total_s), format_seconds(timing.forward_s), memory]


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}"


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="", show_edge=False)
