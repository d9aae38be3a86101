"""The forms in which a comparison is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rnncost.reporting.comparison import Comparison
from rnncost.reporting.renderers.formats import Format, format_of_path, load_renderer

_RENDERERS = {
    "text": Format(".txt", "text", "TextComparison"),
    "markdown": Format(".md", "markdown", "MarkdownComparison"),
    "json": Format(".json", "json", "JsonComparison"),
    "html": Format(".html", "html", "HtmlComparison"),
}
_KIND = "format of a comparison"
COMPARISON_FORMATS = tuple(_RENDERERS)


class ComparisonRenderer(Protocol):
    """Draws a comparison."""

    def render(self, comparison: Comparison) -> str:
        """The comparison in this form, ending in a line break."""


def comparison_renderer_for_format(name: str) -> ComparisonRenderer:
    """The renderer called ``name``.

    Raises:
        ReportFormatError: listing the formats, for any other name.
    """
    renderer: ComparisonRenderer = load_renderer(_RENDERERS, name, package=__name__, kind=_KIND)
    return renderer


def comparison_renderer_for_path(path: str | Path) -> ComparisonRenderer:
    """The renderer that the suffix of ``path`` names.

    Raises:
        ReportFormatError: listing the suffixes, for any other one.
    """
    return comparison_renderer_for_format(format_of_path(_RENDERERS, path, kind=_KIND))
