"""Remembers every module that a HookedModule was put on, so that a fixture can look for left-overs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from torch import nn

from rnncost.tracking import hooks

_PLACES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)


def hook_keys(module: nn.Module) -> dict[str, set[int]]:
    """The keys in each of a module's dictionaries of forward hooks."""
    return {place: set(getattr(module, place)) for place in _PLACES}


@contextlib.contextmanager
def remember_hooked() -> Iterator[list[tuple[nn.Module, dict[str, set[int]]]]]:
    """Yields what was hooked, each module with the hooks that it had before."""
    hooked: list[tuple[nn.Module, dict[str, set[int]]]] = []
    original = hooks.HookedModule.__init__

    def remembering(self: hooks.HookedModule, module: nn.Module, hook: hooks.Hook) -> None:
        hooked.append((module, hook_keys(module)))
        original(self, module, hook)

    with mock.patch.object(hooks.HookedModule, "__init__", remembering):
        yield hooked
