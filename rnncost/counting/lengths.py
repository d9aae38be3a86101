"""Sequence lengths: read from text, checked, and counted by value."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from rnncost.errors import LengthsError

# No batch has a step beyond 10^18; a longer number is a slip, and slow to convert.
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def parse_lengths(text: str, *, source: str = "lengths") -> tuple[int, ...]:
    """Reads lengths separated by commas, spaces or line breaks.

    Args:
        text: for example ``"9,8,6"`` or a file's content with one length a line.
        source: what to call the text in an error.

    Raises:
        LengthsError: naming the value and its position, for anything but integers of at least 1.
    """
    words = text.replace(",", " , ").split()
    values: list[int | str] = []
    comma_before = True
    for word in words:
        if word == ",":
            if comma_before:
                values.append("")
            comma_before = True
        else:
            values.append(int(word) if _INTEGER.fullmatch(word) else word)
            comma_before = False
    return check_lengths(values, source=source)


def check_lengths(lengths: Iterable[Any], *, source: str = "lengths") -> tuple[int, ...]:
    """Returns the lengths as Python integers, in their order.

    Args:
        lengths: integers of any integer type: a list, a numpy array, a tensor on any device.
        source: what to call them in an error.

    Raises:
        LengthsError: naming the value and its position (counted from 1), if one is not an
            integer of at least 1, or if there is none at all.
    """
    to_list = getattr(lengths, "tolist", None)
    values = to_list() if callable(to_list) else lengths
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise LengthsError(f"{source}: {lengths!r} is not a sequence of lengths; give one such as [9, 8, 6]")
    values = values if isinstance(values, (list, tuple)) else list(values)
    if set(map(type, values)) == {int} and min(values) >= 1:  # at the speed of C, for a whole data set
        return tuple(values)
    checked = tuple(_checked(value, position, source) for position, value in enumerate(values, start=1))
    if not checked:
        raise LengthsError(f"{source}: no length given; give at least one, such as 9,8,6")
    return checked


def count_lengths(lengths: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Pairs (length, number of sequences), longest first."""
    return tuple(sorted(Counter(lengths).items(), reverse=True))


def _checked(value: Any, position: int, source: str) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        length = operator.index(value)
    except TypeError:
        raise LengthsError(f"{source}: {value!r} at position {position} is not an integer") from None
    if length < 1:
        raise LengthsError(
            f"{source}: {length} at position {position} is below 1; a sequence has at least one step, "
            "leave empty ones out"
        )
    return length
