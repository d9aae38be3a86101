"""Assertions on a report, for any test framework. Counts are exact, so limits need no slack.

A report in which no recurrent layer ran, or in which some could not be counted, fails them all; but
:func:`assert_no_regression` passes what its baseline names as uncounted too.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from rnncost.errors import RegressionError, UnitError
from rnncost.reporting import limits
from rnncost.reporting.compare import compare
from rnncost.reporting.report import CostReport
from rnncost.reporting.thresholds import parse_thresholds
from rnncost.units import read_count, read_fraction


def assert_max_macs(report: CostReport, limit: int | str) -> None:
    """Fails if more than ``limit`` MACs (an integer, or text such as ``"1.2M"``) were executed.

    Raises:
        RegressionError: an ``AssertionError`` with the figure, the limit and the layers.
        UnitError: if ``limit`` cannot be read.
    """
    _fail_if(limits.max_macs_missed(report, read_count(limit)))


def assert_max_wasted(report: CostReport, limit: Fraction | float | str) -> None:
    """Fails if more than ``limit`` (``"5%"`` or 0.05) of the executed multiplications were padding.

    Raises:
        RegressionError: also where the true lengths of padded calls are unknown.
        UnitError: if ``limit`` cannot be read.
    """
    _fail_if(limits.max_wasted_missed(report, read_fraction(limit)))


def assert_min_saved(report: CostReport, limit: Fraction | float | str) -> None:
    """Fails if less than ``limit`` (``"30%"`` or 0.3) of the padded multiplications were saved.

    Raises:
        RegressionError: an ``AssertionError`` with the figure, the limit and the layers.
        UnitError: if ``limit`` cannot be read.
    """
    _fail_if(limits.min_saved_missed(report, read_fraction(limit)))


def assert_no_regression(current: CostReport, baseline: CostReport | str | Path, fail_on: str = "mults:0%") -> None:
    """Fails if the work of a layer, or of all together, grew from ``baseline`` beyond a limit.

    Args:
        current: the report of now.
        baseline: the report to compare with, or the JSON file that holds it.
        fail_on: limits such as ``"mults:0%,wasted:5%"`` or ``"macs:10k"``; see :func:`rnncost.compare`.

    Raises:
        RegressionError: an ``AssertionError`` with the limit, the figures and the layers.
        UnitError: if ``fail_on`` cannot be read, or holds nothing.
        ReportFormatError: if the file is not a report.
    """
    if not parse_thresholds(fail_on):
        raise UnitError(f"{fail_on!r} would assert nothing; give a limit such as 'mults:0%'")
    report = baseline if isinstance(baseline, CostReport) else CostReport.load(baseline)
    _fail_if(compare(report, current, fail_on=fail_on).message or None)


def _fail_if(missed: str | None) -> None:
    if missed is not None:
        raise RegressionError(missed)
