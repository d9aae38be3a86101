"""The page: one file that holds its charts and their code, and asks nothing of the network."""

from __future__ import annotations

import functools
import re

from rnncost._version import __version__
from rnncost.reporting.renderers import page
from rnncost.reporting.renderers.digest import doubts
from rnncost.reporting.renderers.templates import environment
from rnncost.reporting.report import CostReport
from rnncost.reporting.verdict import verdict


class HtmlRenderer:
    """Draws a report as a self-contained HTML page."""

    def render(self, report: CostReport) -> str:
        """The page."""
        sections = page.sections(report)
        return (
            environment()
            .get_template("report.html")
            .render(
                version=__version__,
                doubts=doubts(report).removesuffix(": "),
                verdict=_unbroken(verdict(report)),
                figures=[figure._replace(detail=_unbroken(figure.detail)) for figure in page.figures(report)],
                sections=sections,
                specifications={section.name: section.charts for section in sections},
                columns=page.columns(report),
                rows=list(page.rows(report)),
                shown=page.SHOWN_ROWS,
                sayings=page.sayings(report),
                environment=page.environment(report),
                library=_chart_library() if sections else "",
            )
        )


def _unbroken(sentence: str) -> str:
    """The sentence, with no line's end between a number and its unit."""
    return re.sub(r"(?<=\d) (?=[kMGTPE%](?!\w))", "\u00a0", sentence)


@functools.cache
def _chart_library() -> str:
    """Vega, Vega-Lite and vega-embed as one script, out of vl-convert's own copy."""
    import vl_convert

    script: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub knows no default
    # Inside an HTML script nothing but this can end it; in JavaScript both spellings are one.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
