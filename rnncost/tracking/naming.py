"""Finds what a module is called by those who call it."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType

from torch import nn

_COMPILED = "_orig_mod"


def name_from_callers(module: nn.Module, *, otherwise: str) -> str:
    """The dotted name of ``module`` in the outermost module that is calling it right now.

    Reads the ``self`` of the frames below, so it is meant for a module's first call, not for
    every one. Without such a caller it is ``otherwise``.
    """
    name = otherwise
    frame: FrameType | None = sys._getframe(1)
    seen = {id(module)}
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, nn.Module) and id(caller) not in seen:
            seen.add(id(caller))
            name = next((path for path, child in caller.named_modules() if child is module), name)
        frame = frame.f_back
    return without_compile_prefix(name)


def without_compile_prefix(name: str) -> str:
    """The name that a module has without ``torch.compile``, which puts ``_orig_mod`` between."""
    return ".".join(part for part in name.split(".") if part != _COMPILED)


class DistinctNames:
    """Numbers names that were given before: ``rnn``, then ``rnn #2``."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def distinct(self, name: str) -> str:
        """``name``, with a number where it is not the first."""
        self._given[name] += 1
        number = self._given[name]
        return name if number == 1 else f"{name} #{number}"
