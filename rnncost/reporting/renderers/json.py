"""The saved form: the recorded sums, from which everything is derived, and the counts for other readers."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rnncost.counting.opcount import OpCount
from rnncost.reporting.costs import Costs, CostView
from rnncost.reporting.report import CostReport


class JsonRenderer:
    """Draws a report as indented JSON with a stable order of keys."""

    def render(self, report: CostReport) -> str:
        """The report as JSON text."""
        document = msgspec.to_builtins(report)
        ordered = {
            "schema_version": document.pop("schema_version"),
            "partial": report.partial,
            "totals": _counts(report),
            **document,
        }
        for entry, layer in zip(ordered["layers"], report.layers, strict=True):
            entry["counts"] = _counts(layer)
        return json.dumps(ordered, indent=1, allow_nan=False) + "\n"


def _counts(view: CostView) -> dict[str, Any]:
    """Forward and backward together, and then apart."""
    return {**_layouts(view.costs), "forward": _layouts(view.forward), "backward": _layouts(view.backward)}


def _layouts(costs: Costs) -> dict[str, Any]:
    names = ("executed", "padded", "packed", "saved", "wasted")
    counts: dict[str, Any] = {name: _count(getattr(costs, name)) for name in names}
    return {**counts, "saved_fraction": costs.saved_fraction, "wasted_fraction": costs.wasted_fraction}


def _count(count: OpCount | None) -> dict[str, int] | None:
    if count is None:
        return None
    named = ("mults", "adds", "macs", "flops")
    return {**{name: getattr(count, name) for name in named}, **msgspec.to_builtins(count)}
