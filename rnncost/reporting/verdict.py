"""The verdict of a report in a sentence or two, made from its figures alone."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import recommended
from rnncost.units import format_count, format_fraction


class TimeRatio(msgspec.Struct, frozen=True, kw_only=True):
    """What a layout takes relative to padded, over all layers that were timed in it.

    Attributes:
        layout: ``packed`` (its packing included where that was timed), or ``recommended``: each
            layer in its own best layout.
        ratio: sum of median seconds over that of padded.
        low: lower end of the 95 % interval; ``None`` for the sum of several layers.
        high: upper end.
        layers: how many layers.
    """

    layout: str
    ratio: float
    low: float | None
    high: float | None
    layers: int


def time_ratio(report: CostReport, layout: str) -> TimeRatio | None:
    """The time ratio of ``packed`` or ``recommended``; ``None`` where no layer was timed in it."""
    pairs = []
    for layer in report.layers:
        wanted = layer.best_layout if layout == "recommended" else layout
        chosen = recommended(layer.timings, wanted)
        padded = next((timing for timing in layer.timings if timing.layout == "padded"), None)
        if chosen is not None and padded is not None:
            pairs.append((chosen, padded))
    if not pairs:
        return None
    if len(pairs) == 1:
        chosen, _ = pairs[0]
        low, high = chosen.ratio_low, chosen.ratio_high
        return TimeRatio(layout=layout, ratio=chosen.ratio_to_padded, low=low, high=high, layers=1)
    ratio = sum(chosen.total_s for chosen, _ in pairs) / sum(padded.total_s for _, padded in pairs)
    return TimeRatio(layout=layout, ratio=ratio, low=None, high=None, layers=len(pairs))


def verdict(report: CostReport) -> str:
    """What a reader should take away: operations saved, operations wasted, and what the clock said."""
    return " ".join(_sentences(report))


def _sentences(report: CostReport) -> Iterator[str]:
    costs = report.costs
    if not costs.padded.mults:
        yield "No recurrent work ran, so there is nothing to judge."
        return
    partial = "At least: some recurrent work could not be counted. " if report.partial else ""
    # An estimate has run nothing.
    tense = "would save" if all(layer.source == "estimate" for layer in report.layers) else "saved"
    saved = costs.saved.mults
    if saved > 0:
        yield (
            f"{partial}Packing {tense} {format_fraction(costs.saved_fraction)} of the multiplications: "
            f"{format_count(costs.executed.mults)} instead of {format_count(costs.padded.mults)}."
        )
    else:
        yield f"{partial}No multiplication of the padded batches was saved ({format_count(costs.executed.mults)} ran)."
    yield _wasted(report)
    yield from _time(report)


def _wasted(report: CostReport) -> str:
    costs = report.costs
    if costs.wasted is None:
        unknown = [layer for layer in report.layers if layer.wasted is None]
        return f"How much of it was padding is unknown for {_layers(unknown)}: true lengths were not given."
    if costs.wasted.mults == 0:
        return "None of it was padding."
    return f"{format_fraction(costs.wasted_fraction)} of what ran was padding ({format_count(costs.wasted.mults)})."


def _time(report: CostReport) -> Iterator[str]:
    packed, recommended = time_ratio(report, "packed"), time_ratio(report, "recommended")
    if packed is None and recommended is None:
        yield "Whether that saved time was not measured."
    if packed is not None:
        yield f"When timed, packed took {_times(packed)} the time of padded."
    if recommended is not None:
        layouts = {layer.best_layout for layer in report.layers if layer.best_layout}
        named = layouts.pop() if len(layouts) == 1 else "each layer in its own layout"
        if named != "packed":
            yield f"Fastest with the same results: {named}, {_times(recommended)}."


def _times(ratio: TimeRatio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.2f}× (sum of {ratio.layers} layers)"
    return f"{ratio.ratio:.2f}× ({ratio.low:.2f} to {ratio.high:.2f})"


def _layers(layers: list[LayerCost]) -> str:
    return "1 layer" if len(layers) == 1 else f"{len(layers):,} layers"
