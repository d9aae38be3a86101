"""What the arguments of a recurrent kernel say: its module, its batch, its tensors."""

from __future__ import annotations

from types import BuiltinFunctionType
from typing import Any

import torch
from torch import Tensor

from rnncost.counting.kinds import CallKind
from rnncost.counting.shape import BatchShape
from rnncost.counting.spec import GATES, Kind, RnnSpec
from rnncost.tracking.running import vmapped
from rnncost.tracking.shapes import ShapeReader
from rnncost.tracking.wants import Given, call_kind

_CELL_ENDINGS = ("_cell_dynamic", "_cell")
_LAYER_ARGUMENTS = ("hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
_CELL_ARGUMENTS = ("input", "hx", "w_ih", "w_hh", "b_ih", "b_hh")


def kernel_name(func: Any) -> str | None:
    """The name of a recurrent kernel, or ``None`` for any other function."""
    if isinstance(func, BuiltinFunctionType):
        return _FUNCTIONS.get(func)
    if isinstance(func, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        name = str(func.__name__).split(".")[0]
        return name if _kind_of(name) is not None else None
    return None


def _kind_of(kernel: str) -> Kind | None:
    name = kernel.removeprefix("quantized_")
    for ending in _CELL_ENDINGS:
        name = name.removesuffix(ending)
    return next((kind for kind in GATES if kind == name), None)


_NAMES = [f"{prefix}{kind}{ending}" for prefix in ("", "quantized_") for kind in GATES for ending in ("", "_cell")]
# torch.lstm and torch._VF.lstm are one function.
_FUNCTIONS: dict[Any, str] = {
    getattr(torch._C._VariableFunctions, name): name for name in _NAMES if hasattr(torch._C._VariableFunctions, name)
}
Read = tuple[RnnSpec, CallKind, BatchShape, Given]


def read_layer(kernel: str, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: ShapeReader, name: str) -> Read:
    """``(input, hx, params, …, batch_first)`` padded, ``(data, batch_sizes, hx, params, …)`` packed."""
    packed = "data" in kwargs or (len(args) > 2 and isinstance(args[2 if isinstance(args[1], Tensor) else 1], Tensor))
    if kernel.endswith("lstm"):
        packed = "data" in kwargs or isinstance(args[1], Tensor)
    names = ("data", "batch_sizes", *_LAYER_ARGUMENTS) if packed else ("input", *_LAYER_ARGUMENTS, "batch_first")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    kind = _kind_of(kernel)
    assert kind is not None
    data = given["data" if packed else "input"]
    state, cell = given["hx"] if kind == "lstm" else (given["hx"], None)
    spec = RnnSpec.of_widths(
        kind,
        inputs=int(data.shape[-1]),
        state=int(state.shape[-1]),
        cell=None if cell is None else int(cell.shape[-1]),
        num_layers=given["num_layers"],
        bias=given["has_biases"],
        bidirectional=given["bidirectional"],
    )
    if packed:
        shape = shapes.packed(given["batch_sizes"].tolist())
    else:
        batch_first = bool(given.get("batch_first", False))
        sequences, steps = (data.shape[0], data.shape[1]) if batch_first else (data.shape[1], data.shape[0])
        shape = shapes.padded(int(sequences), int(steps), data, batch_first=batch_first, name=name)
    dropout = given["dropout"] if given["train"] and spec.num_layers > 1 else 0.0
    called = call_kind(packed=packed, dropout=dropout)
    weights = () if kernel.startswith("quantized_") else given["params"]
    return spec, called, shape, Given(data=data, state=state, cell=cell, weights=weights)


def read_cell(kernel: str, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: ShapeReader, name: str) -> Read:
    given = {**dict(zip(_CELL_ARGUMENTS, args, strict=False)), **kwargs}
    kind = _kind_of(kernel)
    assert kind is not None
    data = given["input"]
    state, cell = given["hx"] if kind == "lstm" else (given["hx"], None)
    weights = [given.get(name) for name in _CELL_ARGUMENTS[2:]]
    spec = RnnSpec(
        kind=kind,
        input_size=int(data.shape[-1]),
        hidden_size=int(state.shape[-1]),
        bias=weights[2] is not None,
        cell=True,
    )
    sequences = (int(data.shape[0]) if data.dim() == 2 else 1) * vmapped(data)
    shape = BatchShape.rectangle(sequences=sequences, steps=1)
    called = call_kind(packed=False, dropout=0.0)
    tensors = [weight for weight in weights if isinstance(weight, Tensor)]
    return spec, called, shape, Given(data=data, state=state, cell=cell, weights=tensors)
