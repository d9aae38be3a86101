"""Limits on a report, decided on integers: no rounding lets a limit pass or fail."""

from __future__ import annotations

from fractions import Fraction

from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport
from rnncost.units import format_count, format_fraction, printable

_SHOWN_LAYERS = 5


def max_macs_missed(report: CostReport, limit: int) -> str | None:
    """Says how ``limit`` executed MACs were exceeded; ``None`` where they were not.

    A report without any recurrent work misses every limit, here as in the others: a limit on
    nothing guards nothing.
    """
    macs = report.costs.executed.macs
    if macs > limit:
        ranked = sorted(report.layers, key=lambda layer: -layer.costs.executed.macs)
        lines = [f"{_label(layer)}: {layer.costs.executed.macs:,} MACs" for layer in ranked]
        return _message(f"{macs:,} MACs executed, limit {_written(limit)}", lines)
    return _unfit(report, format_count(limit))


def max_wasted_missed(report: CostReport, limit: Fraction) -> str | None:
    """Says how more than ``limit`` of the executed multiplications were wasted on padding.

    Wasted work that is unknown does not pass.
    """
    unknown = [layer for layer in report.layers if layer.costs.wasted is None]
    if unknown:
        lines = [f"{_label(layer)}: padded calls of unknown lengths" for layer in unknown]
        return _message(f"how much was wasted is unknown, limit {format_fraction(limit)}", lines)
    costs = report.costs
    assert costs.wasted is not None
    if costs.wasted.mults > limit * costs.executed.mults:
        lines = [_wasted_line(layer) for layer in sorted(report.layers, key=_wasted_mults) if _wasted_mults(layer)]
        shown = f"{format_fraction(costs.wasted_fraction)} of the executed mults wasted on padding"
        return _message(f"{shown}, limit {format_fraction(limit)}", lines)
    return _unfit(report, format_fraction(limit))


def min_saved_missed(report: CostReport, limit: Fraction) -> str | None:
    """Says how less than ``limit`` of the padded multiplications were saved."""
    costs = report.costs
    if costs.padded.mults and costs.saved.mults < limit * costs.padded.mults:
        ranked = sorted(report.layers, key=lambda layer: -layer.costs.executed.mults)
        lines = [f"{_label(layer)}: {format_fraction(layer.costs.saved_fraction)} saved" for layer in ranked]
        shown = f"{format_fraction(costs.saved_fraction)} of the padded mults saved"
        return _message(f"{shown}, limit {format_fraction(limit)}", lines)
    return _unfit(report, format_fraction(limit))


def _unfit(report: CostReport, limit: str) -> str | None:
    """Says why a limit that is kept by the figures is not to be trusted."""
    if not report.partial:
        ran = any(layer.calls for layer in report.layers)
        return (
            None if ran else _message(f"no recurrent layer ran, so there is nothing to hold to the limit {limit}", [])
        )
    return _message("cannot be guaranteed, since recurrent work is uncounted", [str(each) for each in report.uncounted])


def _wasted_line(layer: LayerCost) -> str:
    return f"{_label(layer)}: {format_fraction(layer.costs.wasted_fraction)} wasted"


def _wasted_mults(layer: LayerCost) -> int:
    wasted = layer.costs.wasted
    return 0 if wasted is None else -wasted.mults


def _label(layer: LayerCost) -> str:
    return f"{printable(layer.name)} ({printable(str(layer.spec))})"


def _written(limit: int) -> str:
    exact, short = f"{limit:,}", format_count(limit)
    return exact if short == exact else f"{exact} ({short})"


def _message(reason: str, lines: list[str]) -> str:
    more = [f"and {len(lines) - _SHOWN_LAYERS:,} more"] if len(lines) > _SHOWN_LAYERS else []
    return "\n  ".join([reason, *lines[:_SHOWN_LAYERS], *more])
