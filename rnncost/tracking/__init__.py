"""Hooks on modules: what really ran, recorded as sums of sizes."""

from rnncost.tracking.contamination import contamination
from rnncost.tracking.estimate import estimate
from rnncost.tracking.readers import Reader, register_reader
from rnncost.tracking.tracker import CostTracker, analyze

__all__ = ["CostTracker", "Reader", "analyze", "contamination", "estimate", "register_reader"]
