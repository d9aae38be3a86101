"""The forms in which a comparison is drawn."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol

from rnncost.errors import ReportFormatError
from rnncost.reporting.comparison import Comparison

# name: (suffix, module, class); a renderer is imported when it is used.
_RENDERERS = {
    "text": (".txt", "text", "TextComparison"),
    "markdown": (".md", "markdown", "MarkdownComparison"),
    "json": (".json", "json", "JsonComparison"),
    "html": (".html", "html", "HtmlComparison"),
}
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
    if name not in _RENDERERS:
        raise ReportFormatError(f"no format of a comparison {name!r}; use one of {', '.join(COMPARISON_FORMATS)}")
    _, module, class_name = _RENDERERS[name]
    renderer: ComparisonRenderer = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)()
    return renderer


def comparison_renderer_for_path(path: str | Path) -> ComparisonRenderer:
    """The renderer that the suffix of ``path`` names.

    Raises:
        ReportFormatError: listing the suffixes, for any other one.
    """
    suffix = Path(path).suffix.lower()
    for name, (known, _, _) in _RENDERERS.items():
        if suffix == known:
            return comparison_renderer_for_format(name)
    suffixes = ", ".join(known for known, _, _ in _RENDERERS.values())
    raise ReportFormatError(f"{path}: no format of a comparison has the suffix {suffix!r}; use one of {suffixes}")
