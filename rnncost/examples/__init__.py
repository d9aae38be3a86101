"""Runnable models on real data that ship with the package."""
