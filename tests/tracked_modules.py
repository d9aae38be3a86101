"""Remembers every module that a HookedModule was put on, so that a fixture can look for left-overs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from torch import nn

from rnncost.tracking import hooks


def own_hooks(module: nn.Module) -> list[Any]:
    places = (module._forward_hooks, module._forward_pre_hooks, module._forward_hooks_with_kwargs)
    found = [hook for place in places for hook in place.values()]
    return [hook for hook in found if type(hook).__module__.startswith("rnncost")]


@contextlib.contextmanager
def remember_hooked() -> Iterator[list[nn.Module]]:
    hooked: list[nn.Module] = []
    original = hooks.HookedModule.__init__

    def remembering(self: hooks.HookedModule, module: nn.Module, hook: hooks.Hook) -> None:
        hooked.append(module)
        original(self, module, hook)

    with mock.patch.object(hooks.HookedModule, "__init__", remembering):
        yield hooked
