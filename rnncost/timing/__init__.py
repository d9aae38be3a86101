"""Clocks, layouts and verdicts: did fewer operations become less time?"""

from rnncost.timing.profiler import profile

__all__ = ["profile"]
