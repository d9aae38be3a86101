"""What the HTML page shows, as plain values: the template only lays them out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rnncost.reporting.layer import LayerCost
from rnncost.reporting.notes import notes
from rnncost.reporting.renderers.charts import batches, operations, timings
from rnncost.reporting.renderers.charts.theme import as_part_of_page
from rnncost.reporting.report import CostReport
from rnncost.reporting.seen import known_batches
from rnncost.reporting.verdict import TimeRatio, time_ratio
from rnncost.units import format_count, format_fraction, printable

_UNKNOWN = "?"
SHOWN_ROWS = 50


class Figure(NamedTuple):
    """One of the four figures on top."""

    label: str
    value: str
    detail: str


class Section(NamedTuple):
    """Charts under a heading; a chart is a Vega-Lite specification."""

    name: str
    title: str
    text: str
    charts: list[dict[str, Any]]


_COLUMNS = (
    *("layer", "spec", "calls", "rows executed", "rows padded", "MACs executed"),
    *("mults executed", "adds executed", "saved mults", "wasted mults"),
)
_RUN_TIME = ("forward s in this run", "backward s in this run")


def columns(report: CostReport) -> tuple[str, ...]:
    """Headings of the table; seconds only where the run's own calls were timed."""
    return (*_COLUMNS, *_RUN_TIME) if report.run_time is not None else _COLUMNS


def figures(report: CostReport) -> list[Figure]:
    """Saved, wasted, time ratio, layers."""
    costs = report.costs
    wasted = _UNKNOWN if costs.wasted is None else format_fraction(costs.wasted_fraction)
    unknown = sum(1 for layer in report.layers if layer.wasted is None)
    wasted_detail = (
        f"lengths unknown in {unknown:,} of {len(report.layers):,} layers"
        if costs.wasted is None
        else f"{format_count(costs.wasted.mults)} of {format_count(costs.executed.mults)} mults executed"
    )
    called = sum(1 for layer in report.layers if layer.calls)
    uncounted = f", {len(report.uncounted):,} modules UNCOUNTED" if report.partial else ""
    return [
        Figure(
            "saved",
            format_fraction(costs.saved_fraction),
            f"{format_count(costs.saved.mults)} of {format_count(costs.padded.mults)} padded mults",
        ),
        Figure("wasted", wasted, wasted_detail),
        _time_figure(time_ratio(report, "packed") or time_ratio(report, "recommended")),
        Figure("layers", f"{len(report.layers):,}", f"{called:,} called{uncounted}"),
    ]


def _time_figure(ratio: TimeRatio | None) -> Figure:
    if ratio is None:
        return Figure("time", "not measured", "rnncost report … --profile measures it")
    packed = "packed+packing" if ratio.packing else "packed"
    over = packed if ratio.layout == "packed" else "recommended layouts"
    if ratio.low is None or ratio.high is None:
        return Figure("time ratio", f"{ratio.ratio:.2f}×", f"{over} to padded, sum of {ratio.layers:,} layers")
    return Figure("time ratio", f"{ratio.ratio:.2f}×", f"{over} to padded, 95 % in {ratio.low:.2f} to {ratio.high:.2f}")


def sections(report: CostReport) -> list[Section]:
    """The charts that the report can fill."""
    found = []
    for name, drawn in (
        ("operations", [operations.operations(report)]),
        ("occupancy", batches.pictures(report)),
        ("lengths", [batches.lengths(report)]),
        ("savings", [timings.savings(report)]),
        ("layouts", timings.layer_charts(timings.timed_layers(report)[: timings.SHOWN_LAYERS])),
    ):
        charts = [as_part_of_page(chart) for chart in drawn if chart is not None]
        if charts:
            title, text = _words(name, report)
            found.append(Section(name, title, text, charts))
    return found


def _words(name: str, report: CostReport) -> tuple[str, str]:
    known = known_batches(report)
    sampled = "1 batch" if len(known) == 1 else f"{len(known):,} batches"
    if name == "operations":
        called = sum(1 for layer in report.layers if layer.calls)
        more = called - operations.SHOWN_LAYERS
        rest = (
            f" The {operations.SHOWN_LAYERS} layers of most work; {more:,} more are in the table." if more > 0 else ""
        )
        return "Operations", f"Multiplications of each layer; the whole bar is what padded batches would cost.{rest}"
    if name == "occupancy":
        return "Batches", f"Sequences by steps, longest on top; out of a random sample of {sampled}."
    if name == "lengths":
        own = sum(1 for batch in known if batch.layer.name == known[0].layer.name)
        seen = "1 sampled batch" if own == 1 else f"{own:,} sampled batches"
        return "Lengths", f"Steps of the sequences that {printable(known[0].layer.name)} saw in {seen}."
    if name == "savings":
        return "Operations against time", "Below the dashed line, saved operations did not become as much saved time."
    return "Layouts", "Median time of each way to run the same batches, with its 95 % interval. ★ is recommended."


def rows(report: CostReport) -> Iterator[tuple[str, ...]]:
    """A row a layer, those of most executed work first."""
    for layer in sorted(report.layers, key=lambda layer: -layer.executed.mults):
        tally, costs = layer.tally, layer.costs
        counts = (tally.calls, tally.rows, tally.padded_rows)
        executed = (costs.executed.macs, costs.executed.mults, costs.executed.adds)
        wasted = _UNKNOWN if costs.wasted is None else format_fraction(costs.wasted_fraction)
        yield (
            printable(layer.name),
            _spec(layer),
            *(f"{count:,}" for count in (*counts, *executed)),
            format_fraction(costs.saved_fraction),
            wasted,
            *(() if report.run_time is None else _run_seconds(layer)),
        )


def _run_seconds(layer: LayerCost) -> tuple[str, str]:
    time = layer.run_time
    if time is None:
        return _UNKNOWN, _UNKNOWN
    return _seconds(time.forward_calls, time.forward_s), _seconds(time.backward_calls, time.backward_s)


def _seconds(calls: int, seconds: float) -> str:
    # In one unit, since the table is sorted by the numbers of its cells.
    return f"{seconds:.6f}" if calls else _UNKNOWN


def _spec(layer: LayerCost) -> str:
    return str(layer.spec) if layer.source == "module" else f"{layer.spec}, {layer.source}"


def sayings(report: CostReport) -> list[str]:
    """Advice of each timed layer, notes, and what padding does to results."""
    timed = [
        f"{printable(layer.name)}: {layer.advice}" for layer in timings.timed_layers(report)[: timings.SHOWN_LAYERS]
    ]
    return [*timed, *notes(report), *map(str, report.contaminations)]


def environment(report: CostReport) -> list[tuple[str, str]]:
    """Releases, and under what conditions layers were timed."""
    found = [(name, ", ".join(versions)) for name, versions in report.versions.items()]
    devices = {
        f"{each.device}, {each.dtype}, {each.threads} thread{'s' * (each.threads != 1)}; "
        f"padded runs in {each.kernels.get('padded', _UNKNOWN)}, packed in {each.kernels.get('packed', _UNKNOWN)}; "
        + ", ".join(f"{name} {version}" for name, version in each.libraries.items())
        for layer in report.layers
        if (each := layer.conditions) is not None
    }
    found += [("timed on", device) for device in sorted(devices)]
    found += [("made by", command) for command in report.commands]
    return found
