"""What a notebook shows of a report: a fragment of HTML without scripts, for light and dark pages."""

from __future__ import annotations

from typing import Any

from rnncost.reporting.layer import LayerCost
from rnncost.reporting.renderers.bars import LEGEND, PARTS, BarParts
from rnncost.reporting.renderers.digest import (
    FIGURES,
    doubts,
    executed,
    figures,
    largest,
    other_notes,
    shortened,
    total,
)
from rnncost.reporting.renderers.templates import environment
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import recommended
from rnncost.reporting.verdict import verdict
from rnncost.units import format_count, printable

_MAX_LAYERS = 50
_MAX_UNCOUNTED = 10
_MAX_NOTES = 10
_NAME = 80
_SENTENCE = 400
_STRIPES = "repeating-linear-gradient(135deg, rgba(200, 150, 30, 0.8) 0 3px, transparent 3px 6px)"
# Half-transparent colours and the text's own: visible on white and on black alike.
_FILLS = {
    "useful": "background: rgba(40, 160, 80, 0.8)",
    "wasted": "background: rgba(215, 80, 50, 0.8)",
    "unknown": f"background: {_STRIPES}",
    "extra": "background: rgba(170, 60, 190, 0.8)",
    "saved": "box-sizing: border-box; border: 1px solid currentColor; opacity: 0.4",
}
_TEXT = "text-align: left; padding: 0.2em 0.6em"
_CELL = "text-align: right; padding: 0.2em 0.6em"


class NotebookRenderer:
    """Draws a report as an HTML fragment of bounded size; above 50 layers the smaller ones are summed up."""

    def render(self, report: CostReport) -> str:
        """The report as HTML, everything of the model's own escaped."""
        return environment().get_template("notebook.html").render(_content(report))


def _content(report: CostReport) -> dict[str, Any]:
    shown, folded = largest(report.layers, _MAX_LAYERS)
    bars = [BarParts.of(layer.costs) for layer in shown]
    longest = max((parts.total for parts in bars), default=0)
    rows = [_row(layer, parts, longest) for layer, parts in zip(shown, bars, strict=True)]
    if folded:
        rest = {"name": f"and {len(folded):,} more", "spec": "", "bar": (), "ratio": "", "layout": ""}
        rows.append({**rest, "figures": figures(folded, total(folded))})
    return {
        "doubts": doubts(report),
        "verdict": verdict(report),
        "executed": executed(report),
        "headings": FIGURES,
        "rows": rows,
        "total": {
            "name": "total (partial)" if report.partial else "total",
            "figures": figures(report.layers, report.costs),
        },
        "timed": any(layer.timings for layer in report.layers),
        "legend": [(part, LEGEND[part]) for part in PARTS if any(getattr(parts, part) for parts in bars)],
        "notes": [*_uncounted(report), *other_notes(report, limit=_MAX_NOTES, length=_SENTENCE)],
        "fills": _FILLS,
        "text": _TEXT,
        "cell": _CELL,
    }


def _row(layer: LayerCost, parts: BarParts, longest: int) -> dict[str, Any]:
    best = recommended(layer.timings, layer.best_layout)
    there = [(part, mults) for part, mults in zip(PARTS, parts.mults, strict=True) if mults]
    return {
        "name": shortened(layer.name, _NAME) or "(no name)",
        "spec": shortened(str(layer.spec), _NAME),
        "bar": [(part, _percent(mults, parts.total)) for part, mults in there],
        "label": ", ".join(f"{format_count(mults)} mults {LEGEND[part]}" for part, mults in there),
        "width": _percent(parts.total, longest),
        "ratio": "" if best is None else f"{best.ratio_to_padded:.2f}x",
        "layout": "" if best is None else printable(str(layer.best_layout)),
        "figures": figures((layer,), layer.costs),
    }


def _percent(part: int, whole: int) -> str:
    """A width in percent, of a part that is there never 0."""
    return f"{max(part / whole * 100, 0.1):.1f}" if part else "0"


def _uncounted(report: CostReport) -> list[str]:
    shown = [shortened(f"PARTIAL: {each}.", _SENTENCE) for each in report.uncounted[:_MAX_UNCOUNTED]]
    more = len(report.uncounted) - _MAX_UNCOUNTED
    return [*shown, f"PARTIAL: {more:,} more are not counted."] if more > 0 else shown
