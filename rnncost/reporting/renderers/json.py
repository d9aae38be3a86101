"""The saved form: the recorded sums, from which everything is derived, and the counts for other readers."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rnncost.counting.opcount import OpCount
from rnncost.reporting.costs import Costs
from rnncost.reporting.report import CostReport


class JsonRenderer:
    """Draws a report as indented JSON with a stable order of keys."""

    def render(self, report: CostReport) -> str:
        """The report as JSON text."""
        document = msgspec.to_builtins(report)
        ordered = {"schema_version": document.pop("schema_version"), "totals": _counts(report.costs), **document}
        for entry, layer in zip(ordered["layers"], report.layers, strict=True):
            entry["counts"] = _counts(layer.costs)
        return json.dumps(ordered, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _counts(costs: Costs) -> dict[str, Any]:
    return {
        "executed": _count(costs.executed),
        "padded": _count(costs.padded),
        "packed": None if costs.packed is None else _count(costs.packed),
        "saved_fraction": costs.saved_fraction,
        "wasted_fraction": costs.wasted_fraction,
    }


def _count(count: OpCount) -> dict[str, int]:
    named = ("mults", "adds", "macs", "flops")
    return {**{name: getattr(count, name) for name in named}, **msgspec.to_builtins(count)}
