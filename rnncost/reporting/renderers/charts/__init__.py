"""Charts of a report: one definition gives the interactive chart of the page, SVG and PNG."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from rnncost.errors import ReportFormatError
from rnncost.reporting.report import CostReport

# name: (module, what it shows). The function that draws it has the name of the chart.
CHARTS = {
    "operations": ("operations", "executed, saved and wasted multiplications of each layer"),
    "occupancy": ("batches", "real cells and filler of a typical and of the worst batch"),
    "lengths": ("batches", "how long the sequences are"),
    "savings": ("timings", "operations saved against time saved, layer by layer"),
    "layouts": ("timings", "the layouts of the layers side by side, with intervals"),
}
_PNG_SCALE = 2.0


def draw(name: str, report: CostReport) -> Any:
    """The Altair chart called ``name``, or ``None`` where the report has nothing to show in it."""
    module, _ = CHARTS[name]
    drawing: Callable[[CostReport], Any] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return drawing(report)


class ChartRenderer:
    """Draws one chart as a picture.

    Args:
        name: which chart.
        suffix: ``.svg`` or ``.png``.

    Raises:
        ReportFormatError: listing the charts, if there is none of that name.
    """

    def __init__(self, name: str | None, *, suffix: str) -> None:
        if name not in CHARTS:
            given = "a picture shows one chart" if name is None else f"there is no chart {name!r}"
            raise ReportFormatError(f"{given}; name one of {', '.join(CHARTS)} (--chart NAME, or chart=NAME)")
        self._name = name
        self._suffix = suffix

    def render(self, report: CostReport) -> bytes:
        """The content of the file.

        Raises:
            ReportFormatError: if the report has nothing to show in this chart.
        """
        from rnncost.reporting.renderers.charts.theme import as_picture

        chart = draw(self._name, report)
        if chart is None:
            _, shows = CHARTS[self._name]
            raise ReportFormatError(f"the report has nothing to draw in the chart {self._name!r} ({shows})")
        return _convert(as_picture(chart), self._suffix)


def _convert(specification: dict[str, Any], suffix: str) -> bytes:
    import vl_convert

    if suffix == ".png":
        png: bytes = vl_convert.vegalite_to_png(specification, scale=_PNG_SCALE)
        return png
    svg: str = vl_convert.vegalite_to_svg(specification)
    return svg.encode("utf-8") + b"\n"
