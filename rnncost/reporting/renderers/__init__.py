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
}
FORMATS = tuple(_RENDERERS)


class Renderer(Protocol):
    """Draws a report."""

    def render(self, report: CostReport) -> str:
        """The report in this form, ending in a line break."""


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


def renderer_for_path(path: str | Path) -> Renderer:
    """The renderer that the suffix of ``path`` names.

    Raises:
        ReportFormatError: listing the suffixes, for any other one.
    """
    suffix = Path(path).suffix.lower()
    for name, (known, _, _) in _RENDERERS.items():
        if suffix == known:
            return renderer_for_format(name)
    suffixes = ", ".join(known for known, _, _ in _RENDERERS.values())
    raise ReportFormatError(f"{path}: no report format has the suffix {suffix!r}; use one of {suffixes}")
