"""Warnings that point at the line of the user's code that led to them."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from rnncost.errors import RnncostWarning


def warn(message: str, category: type[RnncostWarning]) -> None:
    """Warns at the nearest frame outside rnncost and torch."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).split(".")[0] in ("rnncost", "torch"):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
