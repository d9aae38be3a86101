"""Bars of the multiplications of each layer: real work, padding, and what packing left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from rnncost.reporting.costs import Costs
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.renderers.charts.theme import REAL, ROW_HEIGHT, SAVED, UNKNOWN, WASTED, WIDTH
from rnncost.reporting.report import CostReport
from rnncost.units import format_fraction, printable

SHOWN_LAYERS = 25
_PARTS = {
    "executed, on real steps": REAL,
    "executed, real or filler: lengths unknown": UNKNOWN,
    "executed, wasted on padding": WASTED,
    "saved": SAVED,
}


def operations(report: CostReport) -> Any:
    """A bar for each of the 25 layers of most work."""
    ran = sorted((layer for layer in report.layers if layer.calls), key=lambda layer: -layer.padded.mults)
    shown = ran[:SHOWN_LAYERS]
    names = distinct_names(shown)
    values = [part for name, layer in zip(names, shown, strict=True) for part in _parts(name, layer.costs)]
    if not values:
        return None
    there = [part for part in _PARTS if any(value["part"] == part for value in values)]
    return (
        alt.Chart(alt.InlineData(values))
        .mark_bar()
        .encode(
            x=alt.X("mults:Q", title="multiplications", axis=alt.Axis(format="~s", tickCount=6)),
            y=alt.Y("layer:N", title=None, sort=names),
            color=alt.Color(
                "part:N", title=None, scale=alt.Scale(domain=there, range=[_PARTS[part] for part in there]), sort=there
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("layer:N", title="layer"),
                alt.Tooltip("part:N", title="part"),
                alt.Tooltip("exact:N", title="multiplications"),
                alt.Tooltip("share:N", title="of padded"),
            ],
        )
        .properties(
            width=WIDTH,
            height=ROW_HEIGHT * len(names),
            description="Bars: multiplications executed on real steps, wasted on padding and saved, by layer.",
        )
    )


def distinct_names(layers: Sequence[LayerCost]) -> list[str]:
    """Names for an axis: printable, and told apart by their spec where they are alike."""
    names = [printable(layer.name) for layer in layers]
    return [
        f"{name} ({layer.spec})" if names.count(name) > 1 else name for name, layer in zip(names, layers, strict=True)
    ]


def _parts(name: str, costs: Costs) -> list[dict[str, Any]]:
    return [
        {
            "layer": name,
            "part": part,
            "order": order,
            "mults": mults,
            "exact": f"{mults:,}",
            "share": format_fraction(mults / costs.padded.mults) if costs.padded.mults else "n/a",
        }
        for order, (part, mults) in enumerate(_sizes(costs))
        if mults
    ]


def _sizes(costs: Costs) -> Iterator[tuple[str, int]]:
    real, unknown, wasted, saved = _PARTS
    if costs.packed is None:
        yield unknown, costs.executed.mults
    else:
        yield real, costs.packed.mults
        yield wasted, costs.executed.mults - costs.packed.mults
    # Negative where more ran than the rectangle would have: the bar then points to the left.
    yield saved, costs.saved.mults
