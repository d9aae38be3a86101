"""A comment for a pull request: three lines and a table, in GitHub's Markdown."""

from __future__ import annotations

import re

from rnncost.reporting.costs import Costs
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.renderers.digest import contaminated, doubts, largest, other_notes, shortened, total, verdict
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import LayoutTiming, recommended
from rnncost.units import format_count, format_fraction

_MAX_LAYERS = 30
_MAX_UNCOUNTED = 10
_MAX_NOTES = 7
_MAX_CONTAMINATED = 3
# A character may become an entity of six: all at their longest are 60,000 characters.
_NAME = 60
_SENTENCE = 250
_UNKNOWN = "?"
# Inside a word an underscore is none.
_MARKUP = r"[&<>|*`\[\]\\~#@$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
_NO_TIME = "Operations, not time: fewer operations can still take longer on a given device."


class MarkdownRenderer:
    """Draws a report as Markdown of bounded length, far below the 65,536 characters of a GitHub comment.

    Above 30 layers those of most executed mults are shown and the others summed up. Names are
    shown as code, so that none mentions a person, links or breaks the table.
    """

    def render(self, report: CostReport) -> str:
        """The report as Markdown."""
        blocks = ["\n".join(f"- {line}" for line in _summary(report))]
        if report.layers:
            blocks.append(_table(report))
        if report.uncounted:
            blocks.append(_uncounted(report))
        found = [note for note in other_notes(report, limit=_MAX_NOTES, length=_SENTENCE) if not _is_said(note)]
        found += contaminated(report, limit=_MAX_CONTAMINATED, length=_SENTENCE)
        if found:
            listed = "\n".join(f"- {_text(note)}" for note in found)
            blocks.append(f"<details><summary>Notes</summary>\n\n{listed}\n\n</details>")
        return "\n\n".join(blocks) + "\n"


def _summary(report: CostReport) -> tuple[str, str, str]:
    executed, padded = report.executed, report.padded
    said = verdict(report)
    return (
        f"**{doubts(report)}{said[0].upper()}{said[1:]}**",
        f"Executed {executed.macs:,} of {padded.macs:,} padded MACs, {executed.mults:,} of {padded.mults:,} mults "
        f"and {executed.adds:,} of {padded.adds:,} adds",
        _time(report),
    )


def _time(report: CostReport) -> str:
    timed = [(layer, best) for layer in report.layers if (best := _best(layer)) is not None]
    if not timed:
        return _NO_TIME.rstrip(".")
    layer, best = max(timed, key=lambda each: each[0].executed.mults)
    more = f"; {len(timed) - 1:,} more timed, see below" if len(timed) > 1 else ""
    return (
        f"Time of {_code(layer.name)}: {_packed(layer)}fastest with the results of a packed run is "
        f"{_code(str(layer.best_layout))}, {_ratio(best)} of padded{more}"
    )


def _packed(layer: LayerCost) -> str:
    """What the packed run takes, where something else is faster."""
    packed = recommended(layer.timings, "packed")
    if packed is None or layer.best_layout == "packed":
        return ""
    return f"{_code(packed.layout)} takes {_ratio(packed)} of padded; "


def _table(report: CostReport) -> str:
    shown, folded = largest(report.layers, _MAX_LAYERS)
    timed = any(layer.timings for layer in report.layers)
    header = ["layer", "module", "calls", "rows executed / padded", "MACs", "mults saved", "mults wasted"]
    rules = ["---", "---", *["---:"] * 5]
    if timed:
        header += ["best layout", "its time of padded"]
        rules += ["---", "---:"]
    rows = [header, rules, *(_layer_row(layer, timed) for layer in shown)]
    empty = [""] * 2 if timed else []
    if folded:
        rows.append([f"and {len(folded):,} more", "", *_figures(folded, total(folded)), *empty])
    name = "**total (partial)**" if report.partial else "**total**"
    rows.append([name, "", *_figures(report.layers, report.costs), *empty])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _layer_row(layer: LayerCost, timed: bool) -> list[str]:
    row = [_code(layer.name), _text(shortened(str(layer.spec), _NAME)), *_figures((layer,), layer.costs)]
    if timed:
        best = _best(layer)
        row += ["", ""] if best is None else [_code(str(layer.best_layout)), _ratio(best)]
    return row


def _figures(layers: tuple[LayerCost, ...], costs: Costs) -> list[str]:
    tallies = [layer.tally for layer in layers]
    rows, padded = sum(tally.rows for tally in tallies), sum(tally.padded_rows for tally in tallies)
    wasted = _UNKNOWN if costs.wasted is None else format_fraction(costs.wasted_fraction)
    return [
        f"{sum(tally.calls for tally in tallies):,}",
        f"{format_count(rows)} / {format_count(padded)}",
        format_count(costs.executed.macs),
        format_fraction(costs.saved_fraction),
        wasted,
    ]


def _uncounted(report: CostReport) -> str:
    lines = [
        f"- {_code(each.name)} ({_code(each.type_name)}): {_text(shortened(each.reason, _SENTENCE))}"
        for each in report.uncounted[:_MAX_UNCOUNTED]
    ]
    if len(report.uncounted) > _MAX_UNCOUNTED:
        lines.append(f"- and {len(report.uncounted) - _MAX_UNCOUNTED:,} more")
    return "\n".join(["Not counted, so that every total is partial:", "", *lines])


def _best(layer: LayerCost) -> LayoutTiming | None:
    return recommended(layer.timings, layer.best_layout)


def _ratio(timing: LayoutTiming) -> str:
    return f"{timing.ratio_to_padded:.2f}x ({timing.ratio_low:.2f} to {timing.ratio_high:.2f})"


def _is_said(note: str) -> bool:
    """Whether the third line says it already."""
    return note.startswith("Operations, not time:")


def _code(name: str) -> str:
    """A name as code, whatever is in it."""
    shown = shortened(name, _NAME) or "(no name)"
    if "|" in shown:
        # In a code span a pipe would need a backslash, which another one before it would undo.
        return f"<code>{_entities(shown, '[^A-Za-z0-9 -]')}</code>"
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def _text(sentence: str) -> str:
    """A sentence that may hold names: nothing in it is markup, a mention, a reference or a link."""
    escaped = _entities(sentence, _MARKUP)
    # GitHub looks for these in the finished text, where an entity is the character itself: a
    # space of no width keeps them from being mentions, references and links.
    return re.sub(r"(?i)&#64;|&#35;|://|www\.", lambda found: f"{found[0]}\u200b", escaped)


def _entities(text: str, pattern: str) -> str:
    return re.sub(pattern, lambda found: f"&#{ord(found[0])};", text)
