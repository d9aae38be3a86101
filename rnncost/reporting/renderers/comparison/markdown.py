"""A comparison for a comment on a pull request: three lines and a table of the layers that changed."""

from __future__ import annotations

import re

from rnncost.reporting.comparison import Comparison, Figures, LayerChange, exact
from rnncost.reporting.renderers.comparison.rows import change_of_mults, totals

_HEADINGS = ("layer", "status", "rows", "mults", "change", "wasted mults")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*(?<! )")
_MARKS = re.compile(r"[!-/:-@\[-`{-~]")
# What Markdown or GitHub makes more of than text in the middle of a sentence.
_MARKUP = re.compile(r"(?i:(?<=www)\.)|:(?! )|[\\`*_{}\[\]<>#|~$&@]")


class MarkdownComparison:
    """Draws a comparison as Markdown. Layers whose figures are the same are counted, not listed."""

    def render(self, comparison: Comparison) -> str:
        """The comparison as Markdown of GitHub's kind."""
        changed = [layer for layer in comparison.layers if layer.status != "same"]
        lines = [f"**{comparison.verdict}**", "", _text(comparison.summary), "", _totals(comparison), ""]
        if changed:
            lines += [_row(_HEADINGS), "| --- | --- | ---: | ---: | ---: | ---: |"]
            lines += [_row(_cells(layer)) for layer in changed] + [""]
        lines += [f"- **REGRESSION** {_text(str(each))}" for each in comparison.regressions]
        lines += [f"- {_text(note)}" for note in comparison.notes]
        return "\n".join(lines).rstrip("\n") + "\n"


def _totals(comparison: Comparison) -> str:
    shown = [
        f"{title} {exact(before)} → {exact(after)} ({growth})"
        for title, before, after, _, growth in totals(comparison)
        if title in ("MACs", "mults", "adds", "wasted mults")
    ]
    return "; ".join(shown)


def _cells(layer: LayerChange) -> tuple[str, ...]:
    before, after = layer.baseline, layer.current
    return (
        f"{_code(layer.label_of_name.replace(' -> ', ' → ', 1))} {_text(layer.label_of_spec)}",
        layer.status,
        f"{_figure(before, 'rows')} → {_figure(after, 'rows')}",
        f"{_figure(before, 'mults')} → {_figure(after, 'mults')}",
        change_of_mults(layer),
        f"{_figure(before, 'wasted')} → {_figure(after, 'wasted')}",
    )


def _figure(figures: Figures | None, name: str) -> str:
    return "-" if figures is None else exact(figures.of_metric(name))


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(name: str) -> str:
    """A name as code, so that nothing in it is markup, a link or a mention."""
    return f"`{name}`" if _NAME.fullmatch(name) else f"<code>{_MARKS.sub(_reference, name)}</code>"


def _text(sentence: str) -> str:
    """A sentence that may hold names of any kind, as text alone."""
    return _MARKUP.sub(_inert, sentence.replace("->", "→"))


def _inert(found: re.Match[str]) -> str:
    # GitHub looks for mentions and issue numbers after Markdown is done, but not in code.
    return f"<code>{_reference(found)}</code>" if found[0] in "@#" else _reference(found)


def _reference(found: re.Match[str]) -> str:
    """A character reference, which Markdown never takes for markup."""
    return f"&#{ord(found[0])};"
