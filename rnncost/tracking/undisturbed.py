"""Runs somebody's module without leaving a trace: modes, gradients, hooks and random state stay."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextlib.contextmanager
def undisturbed(module: nn.Module, *, without_hooks: bool = False) -> Iterator[None]:
    """Keeps a module and the random state as they are, whatever happens inside.

    Args:
        module: its training modes (of all submodules) and the gradients of its parameters are
            put back; inside, the parameters have none.
        without_hooks: take its own hooks off meanwhile, so that they are neither run nor timed.
    """
    modes = {each: each.training for each in module.modules()}
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    hooks = _hooks(module) if without_hooks else []
    devices = sorted({parameter.device.index for parameter, _ in gradients if parameter.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        try:
            for parameter, _ in gradients:
                parameter.grad = None
            for place, _ in hooks:
                place.clear()
            yield
        finally:
            for each, training in modes.items():
                each.training = training
            for parameter, gradient in gradients:
                parameter.grad = gradient
            for place, found in hooks:
                place.update(found)


def _hooks(module: nn.Module) -> list[tuple[dict[int, Any], dict[int, Any]]]:
    places = [getattr(each, name) for each in module.modules() for name in _HOOKS]
    return [(place, dict(place)) for place in places]
