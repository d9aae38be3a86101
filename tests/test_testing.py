from __future__ import annotations

from fractions import Fraction

import pytest

from rnncost import testing
from rnncost.errors import RegressionError, UnitError
from rnncost.reporting import CostReport
from tests.reporting.reports import SCRIPTED, packed_layer, padded_layer, report

SAVING = report(packed_layer("rnn", [5, 2]))
WASTING = report(padded_layer("dec", 2, 4, [4, 1]), packed_layer("rnn", [5, 2]))


def test_limits_that_hold_exactly() -> None:
    testing.assert_max_macs(SAVING, 420)
    testing.assert_max_macs(SAVING, "0.42k")
    testing.assert_min_saved(SAVING, "30%")
    testing.assert_min_saved(SAVING, 0.3)
    testing.assert_max_wasted(SAVING, "0%")
    testing.assert_max_wasted(WASTING, Fraction(153, 408 + 483))


@pytest.mark.parametrize(
    ("check", "whole", "limit", "message"),
    [
        (testing.assert_max_macs, SAVING, 419, r"420 MACs executed, limit 419 \(419\)\n  rnn \(LSTM 2x3\): 420 MACs"),
        (testing.assert_min_saved, SAVING, "30.1%", r"30.0 % of the padded mults saved, limit 30.1 %\n  rnn"),
        (
            testing.assert_max_wasted,
            WASTING,
            "17%",
            r"17.2 % of the executed mults wasted.*\n  dec \(GRU 2x3\): 37.5 %",
        ),
        (testing.assert_max_wasted, report(padded_layer("dec", 2, 4)), 1, r"unknown.*\n  dec .*unknown lengths"),
        (testing.assert_max_macs, report(uncounted=(SCRIPTED,)), 1, r"cannot be guaranteed.*\n  vad.rnn"),
        (testing.assert_max_wasted, report(uncounted=(SCRIPTED,)), 1, "cannot be guaranteed"),
    ],
)
def test_limits_that_are_missed_say_why(check: object, whole: CostReport, limit: object, message: str) -> None:
    with pytest.raises(RegressionError, match=message) as caught:
        check(whole, limit)  # type: ignore[operator]
    assert isinstance(caught.value, AssertionError)


def test_only_the_first_layers_are_listed() -> None:
    many = report(*(packed_layer(f"rnn{n}", [n]) for n in range(1, 9)))
    with pytest.raises(RegressionError) as caught:
        testing.assert_max_macs(many, 0)
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("  rnn8")
    assert lines[-1] == "  and 3 more"


@pytest.mark.parametrize(
    ("check", "limit"),
    [
        (testing.assert_min_saved, "30"),
        (testing.assert_min_saved, 30),
        (testing.assert_min_saved, -1),
        (testing.assert_max_wasted, 5),
        (testing.assert_max_wasted, float("nan")),
        (testing.assert_max_wasted, None),
        (testing.assert_max_wasted, True),
        (testing.assert_max_macs, float("inf")),
        (testing.assert_max_macs, 1.5),
        (testing.assert_max_macs, -1),
    ],
)
def test_limits_that_cannot_be(check: object, limit: object) -> None:
    with pytest.raises(UnitError):
        check(SAVING, limit)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("check", "limit"),
    [(testing.assert_min_saved, 0), (testing.assert_max_wasted, 1), (testing.assert_max_macs, 10**9)],
)
def test_a_report_of_nothing_guards_nothing(check: object, limit: object) -> None:
    with pytest.raises(RegressionError, match="no recurrent layer ran"):
        check(CostReport(), limit)  # type: ignore[operator]
