"""Colours and forms that all charts share; they read on light and on dark paper."""

from __future__ import annotations

from typing import Any

REAL, WASTED, SAVED, UNKNOWN, EXTRA = "#2a9d8f", "#e2714d", "#a9b4be", "#5b8fd1", "#a35bc4"
WIDTH, ROW_HEIGHT = 640, 22
_LARGEST_INTEGER = 2**53
# Zero without a prefix (not 0k), and an exponent where there is no prefix any more.
COUNT_LABEL = "datum.value == 0 ? '0' : abs(datum.value) < 1e27 ? datum.label : format(datum.value, '.1e')"
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_CONFIG: dict[str, Any] = {
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {"gridColor": "#88888833", "domainColor": "#88888888", "tickColor": "#88888888", "labelLimit": 260},
    "legend": {
        "orient": "top",
        "labelLimit": 400,
        "symbolBaseFillColor": "#888888",
        "symbolBaseStrokeColor": "#888888",
    },
    "title": {"anchor": "start", "fontWeight": "normal", "fontSize": 13},
}


def as_picture(chart: Any) -> dict[str, Any]:
    """The specification of a chart that stands alone, on white."""
    return {**specification(chart), "background": "white", "padding": 12}


def specification(chart: Any) -> dict[str, Any]:
    """The Vega-Lite specification of an Altair chart, in rnncost's colours."""
    found: dict[str, Any] = _drawable(chart.to_dict())
    found["config"] = {**_CONFIG}
    return found


def _drawable(value: Any) -> Any:
    """The same with every number as JavaScript has it: integers of more than 64 bits stop the drawing."""
    if isinstance(value, dict):
        return {key: _drawable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_drawable(each) for each in value]
    return float(value) if isinstance(value, int) and abs(value) > _LARGEST_INTEGER else value


def as_part_of_page(chart: Any) -> dict[str, Any]:
    """The specification of a chart that fills the width of the page and lets its paper show through."""
    found = specification(chart)
    found["background"] = "transparent"
    # On a phone a legend of one row would be cut; 0 columns are one row.
    found["config"]["legend"] = {**_CONFIG["legend"], "columns": {"expr": "width < 420 ? 1 : 0"}}
    if "width" in found:
        found["width"] = "container"
    found["autosize"] = {"type": "fit-x", "contains": "padding"}
    return found
