"""Charts of what was timed: whether saved operations became saved time, and the layouts side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from rnncost.reporting.layer import LayerCost
from rnncost.reporting.renderers.charts.operations import distinct_names
from rnncost.reporting.renderers.charts.theme import REAL, SAVED, UNKNOWN, WASTED, WIDTH
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import realised_savings, recommended
from rnncost.units import format_bytes, format_count, format_fraction, format_seconds

SHOWN_LAYERS = 12
_COLORS = {"faster": REAL, "slower": WASTED, "same": SAVED, "unclear": UNKNOWN}


def timed_layers(report: CostReport) -> list[LayerCost]:
    """The timed layers, those of most time first."""
    timed = [layer for layer in report.layers if layer.timings and layer.conditions is not None]
    return sorted(timed, key=lambda layer: -max(timing.total_s for timing in layer.timings))


def savings(report: CostReport) -> Any:
    """A point a layer and layout: above the line saved operations became more time saved, below less."""
    layers = timed_layers(report)[:SHOWN_LAYERS]
    named = zip(distinct_names(layers), layers, strict=True)
    values = [value for name, layer in named for value in _saved(name, layer)]
    if not values:
        return None
    ends = [min(0.0, *(value["operations"] for value in values)), max(value["operations"] for value in values)]
    line = [{"operations": each, "time": each} for each in (min(ends), max(0.1, *ends))]
    diagonal = (
        alt.Chart(alt.InlineData(line))
        .mark_line(color="#888888", strokeDash=[4, 4])
        .encode(x="operations:Q", y="time:Q")
    )
    points = (
        alt.Chart(alt.InlineData(values))
        .mark_point(filled=True, size=80, opacity=0.85)
        .encode(
            x=alt.X("operations:Q", title="operations saved of padded", axis=alt.Axis(format="%", tickCount=8)),
            y=alt.Y("time:Q", title="time saved of padded", axis=alt.Axis(format="%", tickCount=8)),
            color=_verdict_color(),
            shape=alt.Shape("layout:N", title=None),
            tooltip=[alt.Tooltip(f"{name}:N", title=name) for name in ("layer", "layout", "verdict")]
            + [
                alt.Tooltip("operations:Q", title="operations saved", format=".1%"),
                alt.Tooltip("time:Q", title="time saved", format=".1%"),
            ],
        )
    )
    return (diagonal + points).properties(
        width=WIDTH, height=300, description="Operations saved against time saved; on the dashed line both are alike."
    )


def layouts(report: CostReport) -> Any:
    """The ratio to padded of every layout with its interval, layer below layer."""
    layers = timed_layers(report)[:SHOWN_LAYERS]
    if not layers:
        return None
    return alt.vconcat(*layer_charts(layers))


def layer_charts(layers: Sequence[LayerCost]) -> list[Any]:
    """A chart of its layouts for each layer."""
    return [_layer_chart(name, layer) for name, layer in zip(distinct_names(layers), layers, strict=True)]


def _layer_chart(name: str, layer: LayerCost) -> Any:
    values = [_layout(layer, number) for number in range(len(layer.timings))]
    order = [value["layout"] for value in values]
    tooltip = [
        *(alt.Tooltip(f"{field}:N", title=field) for field in ("layout", "verdict", "ratio", "interval", "total")),
        *(alt.Tooltip(f"{field}:N", title=field) for field in ("forward", "backward", "memory", "speed", "results")),
    ]
    y = alt.Y("layout:N", title=None, sort=order)
    base = alt.Chart(alt.InlineData(values))
    x = alt.X("low:Q", title="time relative to padded", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=8))
    intervals = base.mark_rule(strokeWidth=3, opacity=0.6).encode(
        x=x, x2="high:Q", y=y, color=_verdict_color(), tooltip=tooltip
    )
    points = base.mark_point(filled=True, size=90, opacity=1).encode(
        x="median:Q", y=y, color=_verdict_color(), tooltip=tooltip
    )
    one = alt.Chart(alt.InlineData([{"median": 1}])).mark_rule(strokeDash=[4, 4], color="#888888").encode(x="median:Q")
    return alt.layer(one, intervals, points).properties(
        width=WIDTH,
        height=26 * len(values),
        title=f"{name} ({layer.spec})",
        description=f"Time of each layout of {name} relative to padded, with 95 % intervals.",
    )


def _layout(layer: LayerCost, number: int) -> dict[str, Any]:
    timing = layer.timings[number]
    mark = (
        " ★" if timing is recommended(layer.timings, layer.best_layout) else "" if timing.exact else " (results differ)"
    )
    return {
        "layout": timing.layout + mark,
        "median": timing.ratio_to_padded,
        "low": timing.ratio_low,
        "high": timing.ratio_high,
        "verdict": timing.verdict,
        "ratio": f"{timing.ratio_to_padded:.3g}",
        "interval": f"{timing.ratio_low:.3g} to {timing.ratio_high:.3g}",
        "total": format_seconds(timing.total_s),
        "forward": format_seconds(timing.forward_s),
        "backward": "not timed" if timing.backward_s is None else format_seconds(timing.backward_s),
        "memory": "not known" if timing.peak_bytes is None else format_bytes(timing.peak_bytes),
        "speed": "not known" if timing.flops_per_s is None else f"{format_count(round(timing.flops_per_s))}FLOP/s",
        "results": "those of a packed run" if timing.exact else "differ from a packed run",
    }


def _saved(name: str, layer: LayerCost) -> list[dict[str, Any]]:
    assert layer.conditions is not None
    found = []
    for timing in layer.timings:
        if timing.layout != "padded" and timing.exact:
            operations, seconds = realised_savings(timing, layer.conditions)
            found.append(
                {
                    "layer": name,
                    "layout": timing.layout,
                    "verdict": timing.verdict,
                    "operations": operations,
                    "time": seconds,
                    "label": format_fraction(operations),
                }
            )
    return found


def _verdict_color() -> alt.Color:
    return alt.Color("verdict:N", title=None, scale=alt.Scale(domain=list(_COLORS), range=list(_COLORS.values())))
