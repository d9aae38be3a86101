"""What a run with options says at its end."""

from __future__ import annotations

from collections.abc import Iterator

from rnncost.plugin.baseline import Baseline
from rnncost.plugin.comparing import RunComparison
from rnncost.plugin.records import Work
from rnncost.plugin.results import Results
from rnncost.reporting.comparison import Comparison, exact
from rnncost.units import format_count, format_fraction, printable

# A line and how it is shown: the colours of pytest's terminal writer.
Line = tuple[str, dict[str, bool]]
YELLOW = {"yellow": True}
RED = {"red": True}
_PLAIN: dict[str, bool] = {}
_GREEN = {"green": True}
_SHOWN = 10
_SHOWN_WITH_LAYERS = 3
_NARROWEST_NAME = 20


def summary_lines(works: Baseline, *, top: int, width: int) -> Iterator[str]:
    """A row for each of the tests that executed most MACs, then the total."""
    ranked = sorted((item for item in works.items() if item[1]), key=lambda item: (-item[1].total.macs, item[0]))
    if not ranked:
        yield "No test ran a recurrent layer."
        return
    shown, rest = (ranked[:top], ranked[top:]) if top else (ranked, [])
    yield _row("MACs", "saved", "wasted", "test")
    for name, work in shown:
        yield _row(*_cells(work), shorten(printable(name), max(width - 30, _NARROWEST_NAME)))
    if rest:
        yield _row(*_cells(_sum(rest)), f"{_tests(len(rest))} more (--rnncost-top)")
    if len(ranked) > 1:
        yield _row(*_cells(_sum(ranked)), f"all {_tests(len(ranked))}")
    if any(work.uncounted for _, work in ranked):
        yield "* PARTIAL: recurrent work of these tests could not be counted:"
        names = (f"{each.name} ({each.type_name}): {each.reason}" for _, work in ranked for each in work.uncounted)
        yield from _some([f"  {printable(each)}" for each in dict.fromkeys(names)])
    if any(work.wasted_fraction is None for _, work in ranked):
        yield "? = unknown: padded batches without true lengths."


def missing_line(name: str, path: str) -> Line:
    """What to do where there is no baseline."""
    return (
        f"WARNING: nothing was compared, since there is no {path}; "
        f"make it with `pytest --rnncost-save {name}` and commit it.",
        YELLOW,
    )


def comparison_lines(comparison: RunComparison, *, name: str, path: str, limits: str, saving: bool) -> Iterator[Line]:
    """The regressions in full, then what was new, has vanished, or was not compared.

    Args:
        comparison: the run and the baseline.
        name: the baseline as an option takes it.
        path: its file, as it is shown.
        limits: the growth allowed.
        saving: whether this run replaces that baseline.
    """
    regressions = comparison.regressions
    counted = f"{_tests(len(comparison.compared))} compared with {path}, limit {limits}"
    style = RED if regressions else _GREEN if comparison.compared else YELLOW
    yield f"{counted}: {_verdict(comparison)}", style
    for line in _some(_regressions(regressions)):
        yield line, RED
    if regressions:
        way = (
            f"committing {path}, which this run saves"
            if saving
            else f"`pytest --rnncost-save {name}`, and committing {path}"
        )
        yield f"Growth that is meant is accepted by {way}.", YELLOW
    new = [f"  {printable(name)}: {exact(work.total.mults)} mults" for name, work in comparison.new.items()]
    for title, lines in (
        ("New, and held to nothing until they are saved", new),
        ("Vanished, in the baseline only", [f"  {printable(name)}" for name in comparison.vanished]),
        (
            "Without backward passes now, so that forward alone was compared",
            [f"  {printable(name)}" for name in comparison.forward_only],
        ),
        ("Not compared, since they did not pass", [f"  {printable(name)}" for name in comparison.unusable]),
    ):
        if lines:
            yield f"{title}: {_tests(len(lines))}", YELLOW
            yield from ((line, _PLAIN) for line in _some(lines))
    if comparison.absent:
        yield f"{_tests(comparison.absent)} of the baseline did not run.", _PLAIN


def saved_lines(old: Baseline, new: Baseline, results: Results, *, path: str) -> Iterator[Line]:
    """What a saved baseline holds, and what it does not."""
    if not new:
        yield f"WARNING: no test that passed ran a recurrent layer, so {path} was not saved.", YELLOW
        return
    ran = [name for name in new if name in results.passed]
    changed = sum(name in old and old[name].total != new[name].total for name in ran)
    parts = [f"{len(ran):,} of this run ({sum(name not in old for name in ran):,} new, {changed:,} changed)"]
    if len(new) > len(ran):
        parts.append(f"{len(new) - len(ran):,} as they were")
    if set(old) - set(new):
        parts.append(f"{len(set(old) - set(new)):,} removed")
    yield f"Saved {path}: {_tests(len(new))}, {', '.join(parts)}.", _PLAIN
    unsaved = sorted(name for name, work in results.works.items() if work and name in results.not_passed)
    if unsaved:
        yield f"WARNING: not saved, since they did not pass: {_tests(len(unsaved))}", YELLOW
        yield from ((line, _PLAIN) for line in _some([f"  {printable(name)}" for name in unsaved]))


def shorten(name: str, width: int) -> str:
    """A name of at most ``width`` characters: the middle goes, since both ends tell tests apart."""
    if len(name) <= width:
        return name
    head = (width - 3) // 2
    return f"{name[:head]}...{name[len(name) - (width - 3 - head) :]}"


def _regressions(comparisons: dict[str, Comparison]) -> list[str]:
    """Those that grew most in full, so that the layer is named; then a line each, so that all fit on a screen."""
    lines = []
    ranked = sorted(comparisons.items(), key=lambda item: (item[1].baseline.mults - item[1].current.mults, item[0]))
    for number, (name, each) in enumerate(ranked):
        full = each.message.removeprefix(f"{each.verdict}: ")
        shown = f"\n  {full}" if number < _SHOWN_WITH_LAYERS else f": {each.summary}"
        lines.append(f"REGRESSION {printable(name)}{shown}")
    return lines


def _verdict(comparison: RunComparison) -> str:
    grown, cheaper = len(comparison.regressions), comparison.cheaper
    parts = [f"{grown:,} grew beyond the limit"] if grown else ["none grew beyond the limit"]
    return ", ".join([*parts, *([f"{cheaper:,} cheaper (save to keep it so)"] if cheaper else [])])


def _row(macs: str, saved: str, wasted: str, test: str) -> str:
    return f"{macs:>9}  {saved:>7}  {wasted:>7}  {test}"


def _cells(work: Work) -> tuple[str, str, str]:
    mark = "*" if work.uncounted else ""
    wasted = "?" if work.layers and work.wasted_fraction is None else format_fraction(work.wasted_fraction)
    return format_count(work.total.macs) + mark, format_fraction(work.saved_fraction), wasted


def _sum(items: list[tuple[str, Work]]) -> Work:
    return Work(
        layers=tuple(layer for _, work in items for layer in work.layers),
        uncounted=tuple(each for _, work in items for each in work.uncounted),
    )


def _some(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"  and {len(lines) - _SHOWN:,} more"]


def _tests(number: int) -> str:
    return f"{number:,} test{'' if number == 1 else 's'}"
