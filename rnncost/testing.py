"""Assertions on a report, for any test framework. Counts are exact, so limits need no slack."""

from __future__ import annotations

from fractions import Fraction

from rnncost.errors import RegressionError
from rnncost.reporting import limits
from rnncost.reporting.report import CostReport
from rnncost.units import parse_count, parse_fraction


def assert_max_macs(report: CostReport, limit: int | str) -> None:
    """Fails if more than ``limit`` MACs (an integer, or text such as ``"1.2M"``) were executed.

    Raises:
        RegressionError: an ``AssertionError`` with the figure, the limit and the layers.
        UnitError: if ``limit`` cannot be read.
    """
    _fail_if(limits.max_macs_missed(report, parse_count(limit) if isinstance(limit, str) else limit))


def assert_max_wasted(report: CostReport, limit: Fraction | float | str) -> None:
    """Fails if more than ``limit`` (``"5%"`` or 0.05) of the executed multiplications were padding.

    Raises:
        RegressionError: also where the true lengths of padded calls are unknown.
        UnitError: if ``limit`` cannot be read.
    """
    _fail_if(limits.max_wasted_missed(report, _fraction(limit)))


def assert_min_saved(report: CostReport, limit: Fraction | float | str) -> None:
    """Fails if less than ``limit`` (``"30%"`` or 0.3) of the padded multiplications were saved.

    Raises:
        RegressionError: also where no recurrent layer ran.
        UnitError: if ``limit`` cannot be read.
    """
    _fail_if(limits.min_saved_missed(report, _fraction(limit)))


def _fraction(limit: Fraction | float | str) -> Fraction:
    # str() of a float is what the user wrote: 0.3 means three tenths, not its binary neighbour.
    return parse_fraction(limit) if isinstance(limit, str) else Fraction(str(limit))


def _fail_if(missed: str | None) -> None:
    if missed is not None:
        raise RegressionError(missed)
