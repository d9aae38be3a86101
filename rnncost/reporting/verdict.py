"""The verdict of a report in a sentence or two, made from its figures alone."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import LayoutTiming, recommended
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
        packing: whether the time of packing is in it.
    """

    layout: str
    ratio: float
    low: float | None
    high: float | None
    layers: int
    packing: bool


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
        ratio = chosen.ratio_to_padded
        return TimeRatio(layout=layout, ratio=ratio, low=low, high=high, layers=1, packing=_packing(chosen))
    ratio = sum(chosen.total_s for chosen, _ in pairs) / sum(padded.total_s for _, padded in pairs)
    packing = any(_packing(chosen) for chosen, _ in pairs)
    return TimeRatio(layout=layout, ratio=ratio, low=None, high=None, layers=len(pairs), packing=packing)


def _packing(timing: LayoutTiming) -> bool:
    return timing.layout == "packed+packing"


def verdict(report: CostReport) -> str:
    """What a reader should take away: operations saved, operations wasted, and what the clock said."""
    return " ".join(_sentences(report))


def _sentences(report: CostReport) -> Iterator[str]:
    costs = report.costs
    if not costs.padded.mults:
        ran = "No recurrent work that could be counted ran" if report.partial else "No recurrent work ran"
        yield f"{ran}, so there is nothing to judge."
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
        cells = all(getattr(layer.spec, "cell", False) for layer in unknown)
        why = "a cell sees one step at a time" if cells else "true lengths were not given"
        return f"How much of what ran was padding is unknown for {_layers(unknown)}: {why}."
    if costs.wasted.mults == 0:
        return "None of what ran was padding."
    return f"{format_fraction(costs.wasted_fraction)} of what ran was padding ({format_count(costs.wasted.mults)})."


def _time(report: CostReport) -> Iterator[str]:
    packed, recommended = time_ratio(report, "packed"), time_ratio(report, "recommended")
    if packed is None and recommended is None:
        saves = report.costs.saved.mults > 0
        yield "Whether that saves time was not measured." if saves else "Time was not measured."
    if packed is not None:
        packing = ", its packing included" if packed.packing else ""
        yield f"When timed, packed took {_times(packed)} the time of padded{packing}."
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
