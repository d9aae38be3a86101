"""A comparison as JSON: figures as integers, the verdict and the sentences beside them."""

from __future__ import annotations

import json

import msgspec

from rnncost.reporting.comparison import Comparison

COMPARISON_VERSION = 1


class JsonComparison:
    """Draws a comparison as indented JSON with a stable order of keys."""

    def render(self, comparison: Comparison) -> str:
        """The comparison as JSON text. What is unknown, or not in one of the reports, is ``null``."""
        document = msgspec.to_builtins(comparison)
        ordered = {
            "comparison_version": COMPARISON_VERSION,
            "regressed": comparison.regressed,
            "fail_on": document.pop("fail_on"),
            "summary": comparison.summary,
            **document,
        }
        for entry, regression in zip(ordered["regressions"], comparison.regressions, strict=True):
            entry["message"] = str(regression)
        return json.dumps(ordered, indent=1, allow_nan=False) + "\n"
