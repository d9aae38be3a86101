from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from rnncost import testing
from rnncost.errors import RegressionError, ReportFormatError, UnitError
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
        (testing.assert_max_macs, SAVING, 419, r"420 MACs executed, limit 419\n  rnn \(LSTM 2x3\): 420 MACs"),
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


def test_no_regression_against_a_report_or_its_file(tmp_path: Path) -> None:
    SAVING.save(tmp_path / "base.json")
    grown = report(packed_layer("rnn", [6, 2]))
    for baseline in (SAVING, tmp_path / "base.json", str(tmp_path / "base.json")):
        testing.assert_no_regression(SAVING, baseline)
        testing.assert_no_regression(grown, baseline, fail_on="mults:15%,macs:60")
        with pytest.raises(
            RegressionError, match=r"limit mults:0%: 483 -> 552 mults \(\+14.3 %\)(.*\n)+  rnn \(LSTM 2x3\)"
        ):
            testing.assert_no_regression(grown, baseline)
    with pytest.raises(ReportFormatError, match=r"bad.json: broken JSON"):
        (tmp_path / "bad.json").write_text("{")
        testing.assert_no_regression(SAVING, tmp_path / "bad.json")


@pytest.mark.parametrize(("fail_on", "message"), [("none", "would assert nothing"), ("mults", "not METRIC:LIMIT")])
def test_a_regression_limit_that_cannot_be(fail_on: str, message: str) -> None:
    with pytest.raises(UnitError, match=message):
        testing.assert_no_regression(SAVING, SAVING, fail_on)


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
