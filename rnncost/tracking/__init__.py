"""Hooks on modules: what really ran, recorded as sums of sizes."""

from rnncost.tracking.tracker import CostTracker, analyze

__all__ = ["CostTracker", "analyze"]
