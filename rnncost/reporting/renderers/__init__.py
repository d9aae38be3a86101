"""The forms in which a report is drawn: one output, one class, one file."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol

from rnncost.errors import ReportFormatError
from rnncost.reporting.report import CostReport

# name: (suffix, module, class); a renderer is imported when it is used.
_RENDERERS = {
    "text": (".txt", "text", "TextRenderer"),
    "json": (".json", "json", "JsonRenderer"),
    "csv": (".csv", "csv", "CsvRenderer"),
    "markdown": (".md", "markdown", "MarkdownRenderer"),
    "html": (".html", "html", "HtmlRenderer"),
}
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
    if name not in _RENDERERS:
        raise ReportFormatError(f"no report format {name!r}; use one of {', '.join(FORMATS)}")
    _, module, class_name = _RENDERERS[name]
    renderer: Renderer = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)()
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
    for name, (known, _, _) in _RENDERERS.items():
        if suffix == known:
            return renderer_for_format(name)
    suffixes = ", ".join(known for known in (*(known for known, _, _ in _RENDERERS.values()), *CHART_SUFFIXES))
    raise ReportFormatError(f"{path}: no report format has the suffix {suffix!r}; use one of {suffixes}")
