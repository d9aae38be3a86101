"""Compares two reports layer by layer and holds the growth to limits, in integers alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction

import msgspec

from rnncost.reporting.comparison import Comparison, Figures, LayerChange, LayerFigures, Regression
from rnncost.reporting.layer import Uncounted
from rnncost.reporting.matching import match_layers
from rnncost.reporting.report import CostReport, merge
from rnncost.reporting.thresholds import NO_LIMIT, Threshold, parse_thresholds
from rnncost.units import printable


def compare(baseline: CostReport, current: CostReport, *, fail_on: str = "mults:0%") -> Comparison:
    """Says what changed from ``baseline`` to ``current``, and whether it grew beyond a limit.

    A limit holds for each layer that both reports have and for the total, in which layers that
    were added or removed count too. Any growth from 0 exceeds any percentage. What is unknown (the
    waste of padded calls without lengths) keeps no limit; nor does a current report in which
    nothing ran, or in which recurrent work is uncounted that the baseline does not name as
    uncounted too. Where only the baseline has backward passes, forward passes alone are compared;
    where only the current report has them, they are growth.

    Args:
        baseline: the report to compare with.
        current: the report of now.
        fail_on: limits as ``METRIC:LIMIT`` joined by commas. The metrics are ``mults``, ``adds``,
            ``macs``, ``flops``, ``rows``, ``activations`` and ``wasted`` (mults); a limit is the
            growth allowed, a percentage of the baseline (``0%``, ``150%``) or a count (``10k``).
            ``none`` holds nothing.

    Raises:
        UnitError: if ``fail_on`` cannot be read.
        TypeError: if one of the two is not a report.
    """
    thresholds = parse_thresholds(fail_on)
    for name, report in (("baseline", baseline), ("current", current)):
        if not isinstance(report, CostReport):
            raise TypeError(f"{name} is a {type(report).__name__}, not a CostReport; CostReport.load() reads one")
    baseline, current = merge(baseline), merge(current)
    forward_only = _has_backward(baseline) and not _has_backward(current)
    before = without_backward(baseline) if forward_only else baseline
    pairs = match_layers(*([LayerFigures.of(layer) for layer in each.layers] for each in (before, current)))
    layers = tuple(LayerChange.between(*pair) for pair in pairs)
    totals = (Figures.of(before, before.layers), Figures.of(current, current.layers))
    ran = any(layer.calls for layer in current.layers)
    unfit = find_unfit(ran=ran, baseline=baseline.uncounted, current=current.uncounted)
    regressions = (*unfit, *find_growth(thresholds, layers, *totals)) if thresholds else ()
    return Comparison(
        layers=layers,
        baseline=totals[0],
        current=totals[1],
        fail_on=",".join(f"{each.metric}:{each.limit}" for each in thresholds) or NO_LIMIT,
        regressions=regressions,
        notes=tuple(_notes(baseline, current, *totals, forward_only=forward_only)),
        forward_only=forward_only,
        partial=baseline.partial or current.partial,
    )


def _has_backward(report: CostReport) -> bool:
    return any(layer.backward_calls for layer in report.layers)


def without_backward(report: CostReport) -> CostReport:
    """The report of the same run, had its backward not run: without what that recomputed, either."""
    layers = tuple(
        msgspec.structs.replace(
            layer, calls=tuple(call for call in layer.calls if not call.kind.recomputed), backward_calls=()
        )
        for layer in report.layers
    )
    return msgspec.structs.replace(report, layers=layers)


def find_unfit(*, ran: bool, baseline: Iterable[Uncounted], current: Iterable[Uncounted]) -> Iterator[Regression]:
    """Says why the figures of the current report cannot vouch for it, whatever they are.

    Args:
        ran: whether any recurrent layer ran in it.
        baseline: what the baseline names as uncounted.
        current: what it names as uncounted itself.
    """
    if not ran:
        yield Regression(reason="no recurrent layer ran in the current report, so there is nothing to hold to a limit")
    # A reason may be worded anew by another release; one entry more of the same module is other work.
    known = Counter((each.name, each.type_name) for each in baseline)
    for each in current:
        key = (each.name, each.type_name)
        if known[key]:
            known[key] -= 1
        else:
            yield Regression(reason=f"cannot be guaranteed, since work is newly uncounted: {printable(str(each))}")


def find_growth(
    thresholds: tuple[Threshold, ...], layers: tuple[LayerChange, ...], baseline: Figures, current: Figures
) -> Iterator[Regression]:
    """The totals beyond a limit first, then the layers."""
    held = [(each.label, each.baseline, each.current) for each in layers if each.baseline and each.current]
    for name, before, after in [(None, baseline, current), *held]:
        for threshold in thresholds:
            figures = before.of_metric(threshold.metric), after.of_metric(threshold.metric)
            if not threshold.allows(*figures):
                yield Regression(
                    metric=threshold.metric,
                    limit=threshold.limit,
                    layer=name,
                    baseline=figures[0],
                    current=figures[1],
                )


def _notes(
    baseline: CostReport, current: CostReport, before: Figures, after: Figures, *, forward_only: bool
) -> Iterator[str]:
    for title, report in (("baseline", baseline), ("current report", current)):
        yield from (f"PARTIAL: in the {title}, {printable(str(each))}." for each in report.uncounted)
        if report.verification is not None and not report.verification.agrees:
            yield f"NOT VERIFIED: the counts of the {title} differ from the kernels that were seen."
    if forward_only:
        yield (
            "Only the baseline counts backward passes, so forward passes alone are compared; "
            "count them in the current report too (backward=True, --backward) to hold them."
        )
    elif _has_backward(current) and not _has_backward(baseline):
        yield (
            "Only the current report counts backward passes, and all of them are growth; "
            "make the baseline with them too (backward=True, --backward)."
        )
    estimated = [_estimated(report) for report in (baseline, current)]
    if estimated[0] != estimated[1] and None not in estimated:
        which = "baseline" if estimated[0] else "current report"
        yield (
            f"The {which} is an estimate, the other was tracked; "
            "an estimate takes each layer to be called once a batch."
        )
    yield from _amount_of_work(before, after)
    for title, figures in (("baseline", before), ("current report", after)):
        if figures.wasted is None:
            yield f"? = unknown: padded calls of the {title} came without true lengths; give them with lengths=."


def _amount_of_work(before: Figures, after: Figures) -> Iterator[str]:
    amounts = [(each.calls, each.sequences) for each in (before, after)]
    if amounts[0] != amounts[1] and before.calls and after.calls:
        yield (
            f"Not the same amount of work: calls {before.calls:,} -> {after.calls:,}, "
            f"sequences {before.sequences:,} -> {after.sequences:,}. Mults a call: {_mean(before)} -> {_mean(after)}."
        )


def _mean(figures: Figures) -> str:
    tenths = round(Fraction(figures.mults * 10, figures.calls))
    return f"{tenths // 10:,}.{tenths % 10}"


def _estimated(report: CostReport) -> bool | None:
    """Whether nothing was run; ``None`` for a report without layers."""
    sources = {layer.source for layer in report.layers}
    return ("estimate" in sources) if sources else None
