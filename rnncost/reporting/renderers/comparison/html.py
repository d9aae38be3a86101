"""A comparison as one HTML page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

import functools

import jinja2

from rnncost._version import __version__
from rnncost.reporting.comparison import Comparison, Figures, exact
from rnncost.reporting.renderers.comparison.rows import change_of_mults, totals
from rnncost.reporting.renderers.templates import environment


class HtmlComparison:
    """Draws a comparison as a page for light and dark screens and for paper."""

    def render(self, comparison: Comparison) -> str:
        """The page. Names are text in it, whatever they are made of."""
        return (
            _environment()
            .get_template("comparison.html")
            .render(comparison=comparison, totals=list(totals(comparison)), version=__version__)
        )


@functools.cache
def _environment() -> jinja2.Environment:
    found = environment()
    found.filters["exact"] = exact
    found.globals.update(figure=_figure, change=change_of_mults)
    return found


def _figure(figures: Figures | None, name: str) -> str:
    return "–" if figures is None else exact(figures.of_metric(name))
