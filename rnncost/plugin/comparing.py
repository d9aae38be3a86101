"""Holds the tests of a run to a baseline, test by test."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rnncost.plugin.baseline import Baseline
from rnncost.plugin.records import Work
from rnncost.reporting.compare import find_growth, find_unfit
from rnncost.reporting.comparison import Comparison, LayerChange
from rnncost.reporting.matching import match_layers
from rnncost.reporting.thresholds import NO_LIMIT, Threshold


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunComparison:
    """A run and a baseline.

    Attributes:
        compared: the comparison of each test that passed and is in both, by node id.
        new: tests that are not in the baseline, and their work.
        vanished: tests of the baseline that are no more.
        unusable: tests of the baseline that ran but did not pass.
        absent: how many tests of the baseline were not selected for this run.
    """

    compared: dict[str, Comparison]
    new: Baseline
    vanished: tuple[str, ...]
    unusable: tuple[str, ...]
    absent: int

    @property
    def regressions(self) -> dict[str, Comparison]:
        """The comparisons of tests that grew beyond a limit."""
        return {name: each for name, each in self.compared.items() if each.regressed}

    @property
    def forward_only(self) -> tuple[str, ...]:
        """Tests that ran backward passes then and run none now."""
        return tuple(name for name, each in self.compared.items() if each.forward_only)

    @property
    def cheaper(self) -> int:
        """How many tests execute fewer mults than in the baseline."""
        return sum(each.current.mults < each.baseline.mults for each in self.compared.values() if not each.regressed)


def compare_run(
    baseline: Baseline,
    passed: Mapping[str, Work],
    *,
    not_passed: set[str],
    vanished: set[str],
    thresholds: tuple[Threshold, ...],
) -> RunComparison:
    """Compares the tests that passed with the same tests of the baseline.

    Args:
        baseline: the work of each test then.
        passed: the work of each test that passed now.
        not_passed: tests that ran and did not pass, so that their work says nothing.
        vanished: tests of the baseline that are no more.
        thresholds: the growth allowed to each layer and test.
    """
    both = [name for name in sorted(baseline) if name in passed]
    unusable = tuple(name for name in sorted(baseline) if name in not_passed)
    return RunComparison(
        compared={name: compare_work(baseline[name], passed[name], thresholds=thresholds) for name in both},
        new={name: passed[name] for name in sorted(passed) if name not in baseline and passed[name]},
        vanished=tuple(sorted(vanished)),
        unusable=unusable,
        absent=len(baseline) - len(both) - len(unusable) - len(vanished),
    )


def compare_work(before: Work, after: Work, *, thresholds: tuple[Threshold, ...]) -> Comparison:
    """Compares one test as :func:`rnncost.compare` does reports."""
    forward_only = before.has_backward and not after.has_backward
    baseline = before.forward_total if forward_only else before.total
    pairs = match_layers(
        [layer.layer_figures(forward_only=forward_only) for layer in before.layers],
        [layer.layer_figures() for layer in after.layers],
    )
    layers = tuple(LayerChange.between(*pair) for pair in pairs)
    known, found = ([each.uncounted for each in work.uncounted] for work in (before, after))
    ran = bool(after.layers) or not before.layers
    unfit = find_unfit(ran=ran, baseline=known, current=found)
    grown = find_growth(thresholds, layers, baseline, after.total)
    return Comparison(
        layers=layers,
        baseline=baseline,
        current=after.total,
        fail_on=limits_as_text(thresholds),
        regressions=(*unfit, *grown) if thresholds else (),
        forward_only=forward_only,
        partial=bool(before.uncounted or after.uncounted),
    )


def limits_as_text(thresholds: tuple[Threshold, ...]) -> str:
    """The limits as an option takes them."""
    return ",".join(f"{each.metric}:{each.limit}" for each in thresholds) or NO_LIMIT
