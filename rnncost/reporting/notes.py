"""What a reader of the figures must know, in sentences; every renderer shows the same."""

from __future__ import annotations

from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport


def notes(report: CostReport) -> tuple[str, ...]:
    """The notes of a report, the most important first."""
    lines = [f"PARTIAL: {found}." for found in report.uncounted]
    if not report.layers:
        lines.append("No recurrent layer was found, so there is nothing to count.")
    idle = [layer.name for layer in report.layers if not layer.calls]
    if idle:
        lines.append(f"Never called: {', '.join(idle)}.")
    unknown = [layer for layer in report.layers if layer.packed is None]
    if unknown:
        lines.append(_unknown_lengths(unknown))
    lines.append("Operations, not time: fewer operations can still take longer on a given device.")
    return tuple(lines)


def _unknown_lengths(layers: list[LayerCost]) -> str:
    calls = sum(call.forward.calls for layer in layers for call in layer.calls if call.forward.packed_rows is None)
    names = ", ".join(layer.name for layer in layers)
    padded_calls = "1 padded call" if calls == 1 else f"{calls:,} padded calls"
    return f"? = unknown: {padded_calls} of {names} came without true lengths, so what was wasted is not known."
