"""Plain data: what a run cost, saved, merged, compared and drawn."""

from rnncost.reporting.compare import compare
from rnncost.reporting.comparison import Comparison
from rnncost.reporting.layer import LayerCost, Uncounted
from rnncost.reporting.report import CostReport, merge

__all__ = ["Comparison", "CostReport", "LayerCost", "Uncounted", "compare", "merge"]
