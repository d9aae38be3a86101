"""Formulas for recurrent kernels in ``torch.utils.flop_counter.FlopCounterMode``.

```
from torch.utils.flop_counter import FlopCounterMode
from rnncost.integrations.torch_flops import RNN_FLOP_FORMULAS

with FlopCounterMode(custom_mapping=RNN_FLOP_FORMULAS):
    model(x)
```

Without them the counter says 0 for a padded LSTM on the CPU (oneDNN) and for every recurrent layer
under cuDNN. The unit is torch's: two a MAC. Operators' signatures are those of torch 2.13
(``torch.ops.aten.NAME.default._schema``). Needing no formula: the native CPU path, which is dispatched
as ordinary products, and ``_thnn_fused_lstm_cell`` and its like, which are elementwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rnncost.counting import formulas
from rnncost.counting.kinds import BackwardKind
from rnncost.counting.shape import BatchShape
from rnncost.counting.spec import Kind, RnnSpec
from rnncost.counting.tally import Tally

_aten = torch.ops.aten
# The modes of cuDNN, which oneDNN's operator shares.
_MODES: tuple[Kind, ...] = ("rnn_relu", "rnn_tanh", "lstm", "gru")
Formula = Callable[..., int]

RNN_FLOP_FORMULAS: dict[Any, Formula] = {}


def _formula(*operators: str, namespace: Any = _aten) -> Callable[[Formula], Formula]:
    def register(formula: Formula) -> Formula:
        formula._get_raw = True  # type: ignore[attr-defined]  # be given tensors, not shapes
        for name in operators:
            packet = getattr(namespace, name, None)
            if packet is not None:
                RNN_FLOP_FORMULAS[packet] = formula
                # The counter looks for a decomposition unless the overload itself is known.
                RNN_FLOP_FORMULAS.update({getattr(packet, overload): formula for overload in packet.overloads()})
        return formula

    return register


@_formula("mkldnn_rnn_layer")
def mkldnn_rnn_layer(
    input: Tensor, weight0: Tensor, weight1: Tensor, *args: Any, out_val: Any = None, **kwargs: Any
) -> int:
    """One layer and direction of a padded LSTM; input ``(T, B, I)``, weight0 ``(4H, I)``."""
    spec = _layer_spec(input, weight0, weight1)
    return formulas.forward(spec, Tally.of(_rectangle(input))).flops


@_formula("mkldnn_rnn_layer_backward")
def mkldnn_rnn_layer_backward(
    input: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    weight3: Tensor,
    weight4: Tensor,
    hx_: Tensor,
    *args: Any,
    out_val: Any = None,
    **kwargs: Any,
) -> int:
    """Its backward, by the rules of the native path, so that the total does not depend on oneDNN.

    The kernel itself computes the gradients of the input, the states and frozen weights always,
    wanted or not.
    """
    spec = _layer_spec(input, weight1, weight2)
    weights = {"weight_ih_l0": weight1, "weight_hh_l0": weight2, "bias_ih_l0": weight3, "bias_hh_l0": weight4}
    kind = BackwardKind(
        packed=False,
        input_grad=input.requires_grad,
        state_grad=hx_.requires_grad,
        frozen=tuple(sorted(name for name, weight in weights.items() if not weight.requires_grad)),
    )
    return formulas.backward(spec, kind, Tally(passes=1) + Tally.of(_rectangle(input))).flops


def _fused(operator: str) -> Formula:
    """All layers at once, as cuDNN and MIOpen have it.

    The input is ``(T, B, I)``, ``(B, T, I)`` or, with ``batch_sizes``, ``(N, I)``: packed and
    padded differ in its rows alone.
    """

    def formula(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        given = _named(operator, args, kwargs)
        return 2 * _rows(given["input"]) * formulas.forward_row(_fused_spec(given)).macs

    return formula


def _fused_backward(operator: str) -> Formula:
    """The gradients of input and states, which are always computed, and of weights where they are wanted."""

    def formula(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        given = _named(operator, args, kwargs)
        times = 2 if given["output_mask"][3] else 1
        return 2 * times * _rows(given["input"]) * formulas.forward_row(_fused_spec(given)).macs

    return formula


for _operator in ("_cudnn_rnn", "miopen_rnn"):
    _formula(_operator)(_fused(_operator))
    _formula(f"{_operator}_backward")(_fused_backward(f"{_operator}_backward"))


def _opaque(kind: Kind) -> Formula:
    """A whole module as one operator, as inference mode and quantised modules have it."""

    def formula(data: Tensor, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
        packed = isinstance(args[1], Tensor) if kind != "lstm" else isinstance(args[0], Tensor)
        states, _params, has_biases, num_layers, _, _, bidirectional = args[1:8] if packed else args[:7]
        state, cell = states if kind == "lstm" else (states, None)
        spec = RnnSpec.of_widths(
            kind,
            inputs=data.shape[-1],
            state=state.shape[-1],
            cell=None if cell is None else cell.shape[-1],
            num_layers=num_layers,
            bias=has_biases,
            bidirectional=bidirectional,
        )
        return 2 * _rows(data) * formulas.forward_row(spec).macs

    return formula


def _quantized_cell(kind: Kind) -> Formula:
    """``(input, hx, w_ih, w_hh, b_ih, b_hh)`` with packed weights."""

    def formula(data: Tensor, hx: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
        hidden = (hx[0] if kind == "lstm" else hx).shape[-1]
        spec = RnnSpec(kind=kind, input_size=data.shape[-1], hidden_size=hidden, cell=True)
        return 2 * _rows(data) * formulas.forward_row(spec).macs

    return formula


for _kind in _MODES:
    _formula(_kind, f"quantized_{_kind}")(_opaque(_kind))
    _formula(f"quantized_{_kind}_cell_dynamic", namespace=torch.ops.quantized)(_quantized_cell(_kind))


def _layer_spec(input: Tensor, weight_ih: Tensor, weight_hh: Tensor) -> RnnSpec:
    # Without biases the kernel is given zeros; a bias is no product, so it does not matter here.
    return RnnSpec(kind="lstm", input_size=input.shape[-1], hidden_size=weight_hh.shape[-1])


def _fused_spec(given: dict[str, Any]) -> RnnSpec:
    return RnnSpec(
        kind=_MODES[given["mode"]],
        input_size=given["input"].shape[-1],
        hidden_size=given["hidden_size"],
        num_layers=given["num_layers"],
        bidirectional=given["bidirectional"],
        proj_size=given.get("proj_size", 0),
    )


def _named(operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [argument.name for argument in getattr(_aten, operator).default._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _rows(data: Tensor) -> int:
    return data.numel() // data.shape[-1]


def _rectangle(input: Tensor) -> BatchShape:
    return BatchShape.rectangle(sequences=input.shape[1], steps=input.shape[0])
