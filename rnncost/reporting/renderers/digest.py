"""A report cut to a size that a page or a comment can hold."""

from __future__ import annotations

from collections.abc import Iterable

from rnncost.reporting.costs import Costs
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.notes import notes
from rnncost.reporting.report import CostReport
from rnncost.units import format_fraction, printable


def largest(layers: tuple[LayerCost, ...], limit: int) -> tuple[tuple[LayerCost, ...], tuple[LayerCost, ...]]:
    """The layers to be shown and those to be summed up: all in their own order, or the ``limit`` of most mults."""
    if len(layers) <= limit:
        return layers, ()
    ranked = sorted(layers, key=lambda layer: -layer.executed.mults)
    return tuple(ranked[:limit]), tuple(ranked[limit:])


def total(layers: Iterable[LayerCost]) -> Costs:
    """The costs of these layers together."""
    return sum((layer.costs for layer in layers), start=Costs())


def other_notes(report: CostReport, *, limit: int, length: int) -> list[str]:
    """The notes but for those on uncounted modules, at most ``limit`` of at most ``length`` characters."""
    found = notes(report)[len(report.uncounted) :]
    shown = [shortened(note, length) for note in found[:limit]]
    return [*shown, f"And {len(found) - limit:,} more notes."] if len(found) > limit else shown


def contaminated(report: CostReport, *, limit: int, length: int) -> list[str]:
    """What padding does to results, a sentence a layer, at most ``limit`` of at most ``length`` characters."""
    found = [shortened(each.summary + ".", length) for each in report.contaminations]
    more = len(found) - limit
    return [*found[:limit], f"And {more:,} more layers checked."] if more > 0 else found


def shortened(text: str, length: int) -> str:
    """The text on one line, its middle left out where it is too long: the end of a name tells layers apart."""
    shown = printable(text)
    if len(shown) <= length:
        return shown
    half = (length - 4) // 2
    return f"{shown[:half]} .. {shown[-half:]}"


def verdict(report: CostReport) -> str:
    """What was saved and what is wasted, in a sentence without an end."""
    costs = report.costs
    if costs.saved_fraction is None:
        return "nothing ran that could be counted"
    saved = f"{format_fraction(costs.saved_fraction)} of the padded mults saved"
    if costs.wasted is None:
        return f"{saved}, wasted unknown (lengths not given)"
    return f"{saved}, {format_fraction(costs.wasted_fraction)} of the executed mults wasted on padding"


def doubts(report: CostReport) -> str:
    """Marks for the head of a report whose figures are not the whole truth of a run, such as ``NOT VERIFIED: ``."""
    marks = []
    if any(layer.source == "estimate" for layer in report.layers):
        marks.append("ESTIMATED, nothing was run")
    if report.partial:
        modules = "1 module" if len(report.uncounted) == 1 else f"{len(report.uncounted):,} modules"
        marks.append(f"PARTIAL ({modules} not counted)")
    if report.verification is not None and not report.verification.agrees:
        marks.append("NOT VERIFIED")
    return ", ".join(marks) + ": " if marks else ""
