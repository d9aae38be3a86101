"""The verdict of a report in a sentence or two, made from its figures alone."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import not_told_apart, recommended
from rnncost.units import format_count, format_fraction, printable


class TimeRatio(msgspec.Struct, frozen=True, kw_only=True):
    """What a layout takes relative to padded, over all layers that were timed in it.

    Attributes:
        layout: ``packed`` (its packing included where that was timed), or ``recommended``: each
            layer in its own best layout.
        ratio: sum of median seconds over that of padded.
        low: lower end of the 95 % interval; ``None`` for the sum of several layers.
        high: upper end.
        layers: how many layers.
        called: how many layers ran in all, timed or not.
        conclusive: whether each was timed in rounds enough for a verdict.
        packing: whether the time of packing is in it.
        not_told_apart: of one layer, the other layouts whose intervals meet this one's.
    """

    layout: str
    ratio: float
    low: float | None
    high: float | None
    layers: int
    called: int
    conclusive: bool
    packing: bool
    not_told_apart: tuple[str, ...] = ()

    @property
    def which(self) -> str:
        """Which layers it speaks of, where not of all: ``1 of 5 layers``."""
        return f"{self.layers:,} of {self.called:,} layers" if self.layers < self.called else ""


def time_ratio(report: CostReport, layout: str) -> TimeRatio | None:
    """The time ratio of ``packed`` or ``recommended``; ``None`` where no layer was timed in it."""
    found = []
    for layer in report.layers:
        wanted = layer.best_layout if layout == "recommended" else layout
        chosen = recommended(layer.timings, wanted)
        padded = next((timing for timing in layer.timings if timing.layout == "padded"), None)
        if chosen is not None and padded is not None:
            found.append((layer, chosen, padded))
    total_s, padded_s = sum(each.total_s for _, each, _ in found), sum(each.total_s for _, _, each in found)
    alone = len(found) == 1
    if not alone and not padded_s:  # of nothing there is no ratio
        return None
    layer, chosen, _ = found[0]
    return TimeRatio(
        layout=layout,
        # Taken round by round for one layer, which the ratio of two medians is not.
        ratio=chosen.ratio_to_padded if alone else total_s / padded_s,
        low=chosen.ratio_low if alone else None,
        high=chosen.ratio_high if alone else None,
        layers=len(found),
        called=sum(1 for each in report.layers if each.calls),
        conclusive=all(each.conditions is not None and each.conditions.conclusive for each, _, _ in found),
        packing=any(each.layout == "packed+packing" for _, each, _ in found),
        not_told_apart=not_told_apart(chosen, layer.timings) if alone else (),
    )


def verdict(report: CostReport) -> str:
    """What a reader should take away: operations saved, operations wasted, and what the clock said."""
    return " ".join([verdict_on_operations(report), *(_time(report) if report.costs.padded.mults else ())])


def verdict_on_operations(report: CostReport) -> str:
    """The same without the clock, for a reader who finds the times beside it."""
    return " ".join(_operations(report))


def _operations(report: CostReport) -> Iterator[str]:
    costs = report.costs
    if not costs.padded.mults:
        ran = "No recurrent work that could be counted ran" if report.partial else "No recurrent work ran"
        yield f"{ran}, so there is nothing to judge."
        return
    yield _saved(report)
    yield _wasted(report)


def _estimated(report: CostReport) -> bool:
    return all(layer.source == "estimate" for layer in report.layers)


def _saved(report: CostReport) -> str:
    costs, estimated = report.costs, _estimated(report)
    executed, saved = format_count(costs.executed.mults), costs.saved.mults
    in_part = any(layer.source == "estimate" for layer in report.layers)
    ran = "would run" if estimated else "ran"
    would = "would save" if estimated else "saved, in part by estimate," if in_part else "saved"
    if saved > 0:
        said = (
            f"Packing {would} {format_fraction(costs.saved_fraction)} of the multiplications: "
            f"{executed} instead of {format_count(costs.padded.mults)}."
        )
    elif saved < 0:
        said = f"More multiplications {ran} than padded batches take: {executed}, {format_count(-saved)} more."
    elif all(layer.is_cell for layer in report.layers if layer.calls):
        # Its padded figures are those executed, for want of others: that is no finding.
        said = f"{executed} multiplications {ran}; what padded batches would have cost is unknown."
    else:
        was = "would be" if estimated else "was"
        said = f"No multiplication of the padded batches {was} saved ({executed} {ran})."
    # What could not be counted may have saved another share.
    return f"Of the work that could be counted, {said[0].lower()}{said[1:]}" if report.partial else said


def _wasted(report: CostReport) -> str:
    costs, estimated = report.costs, _estimated(report)
    ran = "what would run" if estimated else "what ran"
    if report.partial:
        ran = "that work"
    was = "would be" if estimated else "was"
    if costs.wasted is None:
        unknown = [layer for layer in report.layers if layer.wasted is None]
        cells = all(layer.is_cell for layer in unknown)
        why = "a cell sees one step at a time" if cells else "true lengths were not given"
        return f"How much of {ran} {was} padding is unknown for {_layers(unknown)}: {why}."
    if costs.wasted.mults == 0:
        return f"None of {ran} {was} padding."
    return f"{format_fraction(costs.wasted_fraction)} of {ran} {was} padding ({format_count(costs.wasted.mults)})."


def _time(report: CostReport) -> Iterator[str]:
    packed, best = time_ratio(report, "packed"), time_ratio(report, "recommended")
    if packed is None and best is None:
        saves = report.costs.saved.mults > 0
        yield "Whether that saves time was not measured." if saves else "Time was not measured."
    if packed is not None:
        packing = ", its packing included" if packed.packing else ""
        where = f" in {packed.which}" if packed.which else ""
        yield f"When timed{where}, packed took {_times(packed)} the time of padded{packing}."
    if best is not None:
        layouts = {layer.best_layout for layer in report.layers if layer.best_layout}
        named = layouts.pop() if len(layouts) == 1 else "each layer in its own layout"
        others = f"; not told apart from {', '.join(best.not_told_apart)}" if best.not_told_apart else ""
        if named != "packed" or others:
            where = f" in {best.which}" if best.which else ""
            yield printable(f"Fastest{where} with the same outputs and hidden states: {named}, {_times(best)}{others}.")


def _times(ratio: TimeRatio) -> str:
    few = "" if ratio.conclusive else ", of too few rounds for a verdict"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.2f}× (sum of {ratio.layers} layers{few})"
    return f"{ratio.ratio:.2f}× ({ratio.low:.2f} to {ratio.high:.2f}{few})"


def _layers(layers: list[LayerCost]) -> str:
    return "1 layer" if len(layers) == 1 else f"{len(layers):,} layers"
