"""The forms in which a report is drawn: one output, one class, one file."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rnncost.reporting.renderers.formats import Format, format_of_path, load_renderer
from rnncost.reporting.report import CostReport

_RENDERERS = {
    "text": Format(".txt", "text", "TextRenderer"),
    "json": Format(".json", "json", "JsonRenderer"),
    "csv": Format(".csv", "csv", "CsvRenderer"),
    "markdown": Format(".md", "markdown", "MarkdownRenderer"),
    "html": Format(".html", "html", "HtmlRenderer"),
}
_KIND = "report format"
FORMATS = tuple(_RENDERERS)
CHART_SUFFIXES = (".svg", ".png")


class Renderer(Protocol):
    """Draws a report."""

    def render(self, report: CostReport) -> str:
        """The report in this form, ending in a line break."""


class PictureRenderer(Protocol):
    """Draws a part of a report as a picture."""

    def render(self, report: CostReport) -> bytes:
        """The picture, as the content of its file."""


def renderer_for_format(name: str) -> Renderer:
    """The renderer called ``name``.

    Raises:
        ReportFormatError: listing the formats, for any other name.
    """
    renderer: Renderer = load_renderer(_RENDERERS, name, package=__name__, kind=_KIND)
    return renderer


def renderer_for_path(path: str | Path, *, chart: str | None = None) -> Renderer | PictureRenderer:
    """The renderer that the suffix of ``path`` names.

    Args:
        path: of the file to be written.
        chart: which chart a picture (``.svg``, ``.png``) shows; other files need none.

    Raises:
        ReportFormatError: listing the suffixes, for any other one; for a picture of no known chart.
    """
    suffix = Path(path).suffix.lower()
    if suffix in CHART_SUFFIXES:
        from rnncost.reporting.renderers.charts import ChartRenderer

        return ChartRenderer(chart, suffix=suffix)
    return renderer_for_format(format_of_path(_RENDERERS, path, kind=_KIND, others=CHART_SUFFIXES))
