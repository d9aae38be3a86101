"""Reads single figures off reports."""

from __future__ import annotations

import rnncost


def rows(layer: rnncost.LayerCost) -> tuple[int, int, int | None]:
    """Rows executed, padded and packed."""
    return layer.tally.rows, layer.tally.padded_rows, layer.tally.packed_rows


def only(report: rnncost.CostReport) -> rnncost.LayerCost:
    """The one layer of a report that has no other."""
    assert len(report.layers) == 1, report.layers
    return report.layers[0]
