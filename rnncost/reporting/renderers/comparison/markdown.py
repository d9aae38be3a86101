"""A comparison for a comment on a pull request: three lines and a table of the layers that changed."""

from __future__ import annotations

import itertools
import re

from rnncost.reporting.comparison import Comparison, Figures, LayerChange, exact
from rnncost.reporting.renderers.comparison.rows import change_of_mults, totals
from rnncost.reporting.renderers.digest import shortened

_HEADINGS = ("layer", "status", "rows", "mults", "change", "wasted mults")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*(?<! )")
_MARKS = re.compile(r"[!-/:-@\[-`{-~]")
# What Markdown or GitHub makes more of than text in the middle of a sentence.
_MARKUP = re.compile(r"(?i:(?<=www)\.)|:(?! )|[\\`*_{}\[\]<>#|~$&@]")
# Together below the 65,536 characters of a GitHub comment, whatever the names are.
_ROWS, _REGRESSIONS, _NOTES = 30_000, 20_000, 10_000
_LONGEST_NAME = 120
_LONGEST_SENTENCE = 300


class MarkdownComparison:
    """Draws a comparison as Markdown of bounded length, below that of a GitHub comment.

    Layers whose figures are the same are counted, not listed; where not all others fit, those
    whose mults changed most are.
    """

    def render(self, comparison: Comparison) -> str:
        """The comparison as Markdown of GitHub's kind."""
        changed = [layer for layer in comparison.layers if layer.status != "same"]
        lines = [f"**{comparison.verdict}**", "", _text(comparison.summary), "", _totals(comparison), ""]
        if changed:
            lines += [_row(_HEADINGS), "| --- | --- | ---: | ---: | ---: | ---: |", *_rows(changed), ""]
        regressions = [f"- **REGRESSION** {_sentence(str(each))}" for each in comparison.regressions]
        notes = [f"- {_sentence(note)}" for note in comparison.notes]
        for each, room in ((regressions, _REGRESSIONS), (notes, _NOTES)):
            shown = _fitting(each, room)
            lines += each[:shown] + ([f"- and {len(each) - shown:,} more"] if shown < len(each) else [])
        return "\n".join(lines).rstrip("\n") + "\n"


def _totals(comparison: Comparison) -> str:
    shown = [
        f"{title} {exact(before)} → {exact(after)} ({growth})"
        for title, before, after, _, growth in totals(comparison)
        if title in ("MACs", "mults", "adds", "wasted mults")
    ]
    return "; ".join(shown)


def _rows(changed: list[LayerChange]) -> list[str]:
    rows = [_row(_cells(layer)) for layer in changed]
    if _fitting(rows, _ROWS) == len(rows):
        return rows
    rows = [_row(_cells(layer)) for layer in sorted(changed, key=_change, reverse=True)]
    shown = _fitting(rows, _ROWS)
    return [*rows[:shown], _row((f"and {len(rows) - shown:,} more", *[""] * (len(_HEADINGS) - 1)))]


def _change(layer: LayerChange) -> int:
    before, after = (0 if each is None else each.mults for each in (layer.baseline, layer.current))
    return abs(after - before)


def _fitting(lines: list[str], room: int) -> int:
    """How many of the lines, from the first on, have no more than so many characters together."""
    ends = itertools.accumulate(len(line) + 1 for line in lines)
    return sum(1 for end in ends if end <= room)


def _sentence(said: str) -> str:
    return _text(shortened(said, _LONGEST_SENTENCE))


def _cells(layer: LayerChange) -> tuple[str, ...]:
    before, after = layer.baseline, layer.current
    return (
        f"{_code(_name(layer))} {_text(shortened(layer.label_of_spec, _LONGEST_NAME))}",
        layer.status,
        f"{_figure(before, 'rows')} → {_figure(after, 'rows')}",
        f"{_figure(before, 'mults')} → {_figure(after, 'mults')}",
        change_of_mults(layer),
        f"{_figure(before, 'wasted')} → {_figure(after, 'wasted')}",
    )


def _name(layer: LayerChange) -> str:
    return shortened(layer.label_of_name.replace(" -> ", " → ", 1), _LONGEST_NAME)


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
