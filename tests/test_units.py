from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncost.errors import UnitError
from rnncost.units import format_count, format_fraction, format_seconds, parse_count, parse_fraction, parse_growth


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (10_000, "10.0 k"),
        (99_960, "100.0 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (586_461_184, "586 M"),
        (-1_234_567, "-1.23 M"),
        (10**21, "1.00e+21"),
        (10**24, "1.00e+24"),
    ],
)
def test_counts_are_shortened(count: int, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 µs"),
        (1.3e-3, "1.3 ms"),
        (0.9994e-3, "999 µs"),
        (0.9996e-3, "1 ms"),
        (0.9996, "1 s"),
        (999.4, "999 s"),
        (999.6, "1,000 s"),
        (1234.5, "1,234 s"),
        (360_000.0, "360,000 s"),
    ],
)
def test_seconds_never_have_an_exponent(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("1200", 1200), ("1_200", 1200), ("1,200", 1200), ("1.2M", 1_200_000), ("3 G", 3 * 10**9)],
)
def test_counts_are_read_exactly(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    "text", ["", "M", "-1", "1.2", "1.2X", "1e-3", "nan", "inf", "1.23456789k", "1 2", "1/2M", "5%"]
)
def test_other_counts_are_refused(text: str) -> None:
    with pytest.raises(UnitError, match="write one like"):
        parse_count(text)


@given(st.integers(0, 10**18))
def test_a_written_count_is_near_the_count(count: int) -> None:
    assert abs(parse_count(format_count(count)) - count) * 200 <= count


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (None, "n/a"),
        (0, "0.0 %"),
        (Fraction(1606, 5880), "27.3 %"),
        (Fraction(1, 10**6), "<0.1 %"),
        (Fraction(-1, 10**6), ">-0.1 %"),
        (Fraction(999_999, 10**6), ">99.9 %"),
        (1, "100.0 %"),
        (Fraction(-1, 2), "-50.0 %"),
    ],
)
def test_fractions_are_never_rounded_to_none_or_all(fraction: Fraction | None, text: str) -> None:
    assert format_fraction(fraction) == text


def test_percentages_are_read_exactly() -> None:
    assert parse_fraction("30%") == Fraction(3, 10)
    assert parse_fraction(" 0.5 %") == Fraction(1, 200)


@pytest.mark.parametrize("text", ["30", "0.3", "", "%", "-1%", "101%", "nan%", "1/3%"])
def test_other_percentages_are_refused(text: str) -> None:
    with pytest.raises(UnitError, match="write one like 30%"):
        parse_fraction(text)


def test_growth_may_exceed_100_percent() -> None:
    assert parse_growth("150%") == Fraction(3, 2)
    assert parse_growth(" 0 %") == 0
    for text in ("150", "-1%", "%", "1e9%", "nan%"):
        with pytest.raises(UnitError, match="write one like 5% or 150%"):
            parse_growth(text)
