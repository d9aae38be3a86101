"""Clocks, layouts and verdicts: did fewer operations become less time?"""
