"""The totals of a comparison as rows, the same in every form."""

from __future__ import annotations

from collections.abc import Iterator

from rnncost.reporting.comparison import Comparison, LayerChange, growth_of

_TOTALS = {
    "calls": "calls",
    "backward_calls": "backward calls",
    "sequences": "sequences",
    "rows": "rows",
    "macs": "MACs",
    "mults": "mults",
    "adds": "adds",
    "activations": "activations",
    "wasted": "wasted mults",
}


def totals(comparison: Comparison) -> Iterator[tuple[str, int | None, int | None, int | None, str]]:
    """Title, baseline, current, difference and growth of each total that either report has."""
    for name, title in _TOTALS.items():
        before, after = comparison.baseline.of_metric(name), comparison.current.of_metric(name)
        if name == "backward_calls" and not before and not after:
            continue
        difference = None if before is None or after is None else after - before
        yield title, before, after, difference, growth_of(before, after)


def change_of_mults(layer: LayerChange) -> str:
    """How a layer's multiplications grew; empty for a layer that one report alone has."""
    if layer.baseline is None or layer.current is None:
        return ""
    return growth_of(layer.baseline.mults, layer.current.mults)
