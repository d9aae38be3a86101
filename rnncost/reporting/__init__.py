"""Plain data: what a run cost, saved, merged, compared and drawn."""

from rnncost.reporting.layer import LayerCost, Uncounted
from rnncost.reporting.report import CostReport, merge

__all__ = ["CostReport", "LayerCost", "Uncounted", "merge"]
