"""Bars of the multiplications of each layer: real work, padding, and what packing left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from rnncost.reporting.costs import Costs
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.renderers.bars import LEGEND, PARTS, BarParts
from rnncost.reporting.renderers.charts.theme import EXTRA, REAL, ROW_HEIGHT, SAVED, UNKNOWN, WASTED, WIDTH
from rnncost.reporting.report import CostReport
from rnncost.units import format_fraction, printable

SHOWN_LAYERS = 25
_LABEL = "datum.value ? datum.label : '0'"  # not 0G
_COLORS = {"useful": REAL, "wasted": WASTED, "unknown": UNKNOWN, "extra": EXTRA, "saved": SAVED}


def operations(report: CostReport) -> Any:
    """A bar for each of the 25 layers of most work."""
    ran = sorted((layer for layer in report.layers if layer.calls), key=lambda layer: -layer.padded.mults)
    shown = ran[:SHOWN_LAYERS]
    names = distinct_names(shown)
    values = [part for name, layer in zip(names, shown, strict=True) for part in _parts(name, layer.costs)]
    if not values:
        return None
    there = [part for part in PARTS if any(value["part"] == LEGEND[part] for value in values)]
    drawn = [LEGEND[part] for part in there]
    return (
        alt.Chart(alt.InlineData(values))
        .mark_bar()
        .encode(
            x=alt.X("mults:Q", title="multiplications", axis=alt.Axis(format="~s", tickCount=6, labelExpr=_LABEL)),
            y=alt.Y("layer:N", title=None, sort=names),
            color=alt.Color(
                "part:N", title=None, scale=alt.Scale(domain=drawn, range=[_COLORS[part] for part in there]), sort=drawn
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
            "part": LEGEND[part],
            "order": order,
            "mults": mults,
            "exact": f"{mults:,}",
            "share": format_fraction(mults / costs.padded.mults) if costs.padded.mults else "n/a",
        }
        for order, (part, mults) in enumerate(zip(PARTS, BarParts.of(costs).mults, strict=True))
        if mults
    ]
