"""What a check on a device says: passed, failed or skipped, with its figures."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Literal

import msgspec

Outcome = Literal["passed", "failed", "skipped"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One statement about a device, and whether it holds.

    Attributes:
        name: what was looked at.
        outcome: whether it holds; ``skipped`` where it could not be looked at.
        text: a sentence with the figures that matter.
        figures: all figures, by name, the unit in the name.
    """

    name: str
    outcome: Outcome
    text: str
    figures: dict[str, float | int | str | list[float]] = {}


def passed_if(holds: bool) -> Outcome:
    """``passed`` or ``failed``."""
    return "passed" if holds else "failed"


def guarded(name: str, check: Callable[[], Check]) -> Check:
    """The result of ``check``; an exception is a failed check, so that the others are still run."""
    try:
        return check()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} ({where.name})"
        return Check(name=name, outcome="failed", text=text)
