"""Counts and percentages as people write them, both ways and exactly: ``1.2M``, ``30%``."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from rnncost.errors import UnitError

_DECIMAL = re.compile(r"-?[0-9]{1,30}(\.[0-9]{0,30})?|-?\.[0-9]{1,30}")
_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}


def format_count(count: int) -> str:
    """Shortens a count to at most four digits and an SI prefix, for example ``586 M``.

    Counts below 10,000 are written out, so that small worked examples stay exact.
    """
    size = abs(count)
    if size < 10_000:
        return f"{count:,}"
    if size >= 10**22:  # beyond every prefix, and perhaps beyond what a float holds
        return f"{Decimal(count):.2e}"
    for prefix, scale in list(_PREFIXES.items())[1:]:
        digits = 2 if size < 10 * scale else 1 if size < 100 * scale else 0
        # 999.6 k rounds to 1,000 k: the next prefix shows it as 1.00 M.
        if round(size / scale, digits) < 1000:
            return f"{count / scale:.{digits}f} {prefix}"
    return f"{Decimal(count):.2e}"


def parse_count(text: str) -> int:
    """Reads a count such as ``1200``, ``1_200``, ``1.2M`` or ``3 G``.

    Raises:
        UnitError: if ``text`` is no whole number of at least 0, or its prefix is unknown.
    """
    cleaned = text.strip().replace(",", "").replace("_", "")
    number = cleaned.rstrip("kKMGTPE").strip()
    prefix = cleaned[len(number) :].strip().replace("K", "k")
    value = _fraction(number)
    if value is None or value < 0 or prefix not in _PREFIXES:
        raise UnitError(f"{text!r} is not a count; write one like 1200000 or 1.2M")
    count = value * _PREFIXES[prefix]
    if count.denominator != 1:
        raise UnitError(f"{text!r} is not a whole number of operations; write one like 1200000 or 1.2M")
    return count.numerator


def format_seconds(seconds: float) -> str:
    """Three digits and an SI prefix, for example ``1.30 ms``; from a thousand seconds on all of them."""
    for scale, unit in ((1e-6, "µs"), (1e-3, "ms")):
        # 999.6 µs rounds to 1000 µs: the next unit shows it as 1 ms.
        if round(seconds / scale, 1) < 999.5:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"


def format_bytes(size: int) -> str:
    """Bytes with a decimal prefix, for example ``18.6 MB``."""
    return f"{size:,} B" if size < 1000 else f"{format_count(size) if size >= 10_000 else f'{size / 1000:.1f} k'}B"


def format_fraction(fraction: Fraction | float | None) -> str:
    """Writes a fraction as a percentage with one decimal, and an undefined one as ``n/a``.

    A value that is not 0 % or 100 % is never rounded to it.
    """
    if fraction is None:
        return "n/a"
    percent = Fraction(fraction) * 100
    shown = Fraction(round(percent * 10), 10)
    if shown == 0 != percent:
        return "<0.1 %" if percent > 0 else ">-0.1 %"
    if shown == 100 != percent:
        return ">99.9 %" if percent < 100 else ">100 %"
    return f"{float(shown):,.1f} %"


def parse_fraction(text: str) -> Fraction:
    """Reads a percentage such as ``30%`` or ``0.5 %`` as the exact fraction it means.

    Raises:
        UnitError: if ``text`` has no percent sign or lies outside 0–100 %. A bare ``0.3``
            could mean either 30 % or 0.3 %, so it is refused.
    """
    value = _percentage(text)
    if value is None or value > 1:
        raise UnitError(f"{text!r} is not a percentage from 0% to 100%; write one like 30%")
    return value


def parse_growth(text: str) -> Fraction:
    """Reads a percentage that may exceed 100 %, such as ``150%`` for two and a half times as much.

    Raises:
        UnitError: if ``text`` has no percent sign or is negative.
    """
    value = _percentage(text)
    if value is None:
        raise UnitError(f"{text!r} is not a percentage of at least 0%; write one like 5% or 150%")
    return value


def read_count(count: int | str) -> int:
    """A count that may be written as text.

    Raises:
        UnitError: if it is no whole number of at least 0.
    """
    if isinstance(count, str):
        return parse_count(count)
    if type(count) is not int or count < 0:
        raise UnitError(f"{count!r} is not a count; give an integer of at least 0, or text such as '1.2M'")
    return count


def read_fraction(share: Fraction | float | str) -> Fraction:
    """A share that may be written as a percentage.

    Raises:
        UnitError: if it does not lie from 0 to 1.
    """
    if isinstance(share, str):
        return parse_fraction(share)
    if isinstance(share, bool) or not isinstance(share, (int, float, Fraction)) or not 0 <= share <= 1:
        raise UnitError(f"{share!r} is not a share from 0 to 1; give one such as 0.3, or text such as '30%'")
    # str() of a float is what the user wrote: 0.3 means three tenths, not its binary neighbour.
    return Fraction(str(share))


def printable(name: str) -> str:
    """A name without characters that would steer a terminal or that no file can hold."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)


def _percentage(text: str) -> Fraction | None:
    cleaned = text.strip()
    value = _fraction(cleaned[:-1].strip()) if cleaned.endswith("%") else None
    return None if value is None or value < 0 else value / 100


def _fraction(text: str) -> Fraction | None:
    # No exponents either: 1e99999999 would take all memory.
    if not _DECIMAL.fullmatch(text):
        return None
    return Fraction(text)
