"""Recurrent work inside TorchScript, which runs without Python and so without any hook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from rnncost.reporting.layer import Uncounted

_RECURRENT_NAMES = {"RNN", "GRU", "LSTM", "RNNCell", "GRUCell", "LSTMCell"}
_RECURRENT_KERNELS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_REASON = "scripted: runs inside TorchScript, where no forward hook fires; pass the unscripted module to count it"


def find_scripted(model: nn.Module, *, prefix: str = "") -> Iterator[Uncounted]:
    """Names each scripted module under ``model`` that holds recurrent layers.

    The innermost modules that still carry a recurrent layer's name are given. Where
    optimisation has dissolved them, the outermost scripted module is given if its graph
    calls a recurrent kernel. ``prefix`` is put before the names.
    """
    scripted: list[str] = []
    for name, module in model.named_modules(prefix=prefix):
        if not isinstance(module, torch.jit.ScriptModule) or any(_inside(name, outer) for outer in scripted):
            continue
        scripted.append(name)
        named = list(_named_recurrent(module, prefix=name))
        if named:
            yield from named
        elif _calls_recurrent_kernel(module):
            yield Uncounted(name=name or _type_name(module), type_name=_type_name(module), reason=_REASON)


def _named_recurrent(scripted: nn.Module, *, prefix: str) -> Iterator[Uncounted]:
    for name, module in scripted.named_modules(prefix=prefix):
        type_name = _type_name(module)
        if type_name in _RECURRENT_NAMES:
            yield Uncounted(name=name or type_name, type_name=type_name, reason=_REASON)


def _inside(name: str, outer: str) -> bool:
    return outer == "" or name.startswith(outer + ".")


def _type_name(module: nn.Module) -> str:
    return str(getattr(module, "original_name", type(module).__name__))


def _calls_recurrent_kernel(module: torch.jit.ScriptModule) -> bool:
    try:
        graph: Any = module.inlined_graph
    except (AttributeError, RuntimeError):  # no forward method
        return False
    kinds = [f"aten::{kernel}{cell}" for kernel in _RECURRENT_KERNELS for cell in ("", "_cell")]
    return any(graph.findAllNodes(kind, recurse=True) for kind in kinds)
