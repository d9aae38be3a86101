"""Torch's own recurrent layers and cells, quantised ones included."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rnncost.counting.kinds import CallKind
from rnncost.counting.shape import BatchShape
from rnncost.counting.spec import Kind, RnnSpec
from rnncost.tracking.running import vmapped
from rnncost.tracking.shapes import ShapeReader
from rnncost.tracking.wants import Given, call_kind, cell_weights

_KINDS: dict[str, Kind] = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}
_FORWARDS = {nn.LSTM.forward, nn.GRU.forward, nn.RNN.forward}
_CELL_FORWARDS = {nn.LSTMCell.forward, nn.GRUCell.forward, nn.RNNCell.forward}
_QUANTIZED = "torch.ao.nn.quantized.dynamic.modules.rnn"


def is_stock_layer(module: nn.Module) -> bool:
    """Whether ``module`` is an RNN, GRU or LSTM (quantised too) that runs torch's own forward."""
    if "forward" in vars(module):
        return False
    own = isinstance(module, nn.RNNBase) and type(module).forward in _FORWARDS
    return own or _quantized_name(module) in ("LSTM", "GRU")


def is_stock_cell(module: nn.Module) -> bool:
    """Whether ``module`` is an RNNCell, GRUCell or LSTMCell (quantised too) with torch's own forward."""
    if "forward" in vars(module):
        return False
    own = isinstance(module, nn.RNNCellBase) and type(module).forward in _CELL_FORWARDS
    return own or _quantized_name(module) in ("LSTMCell", "GRUCell", "RNNCell")


def is_derived(module: nn.Module) -> bool:
    """Whether ``module`` descends from torch's recurrent modules."""
    return isinstance(module, (nn.RNNBase, nn.RNNCellBase)) or _quantized_name(module) is not None


def read_spec(module: nn.Module) -> RnnSpec | None:
    """The sizes and options of one of torch's recurrent modules, or of a subclass that has them."""
    kind = _kind(module)
    if kind is None:
        return None
    is_cell = not hasattr(module, "num_layers")
    options: dict[str, Any] = {"input_size": module.input_size, "hidden_size": module.hidden_size}
    if not is_cell:
        options.update(num_layers=module.num_layers, bidirectional=module.bidirectional)
        options.update(proj_size=getattr(module, "proj_size", 0))
    return RnnSpec(kind=kind, bias=bool(module.bias), cell=is_cell, **options)


def read_layer(
    module: nn.Module, spec: RnnSpec, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: ShapeReader, *, name: str
) -> tuple[CallKind, BatchShape, Given]:
    """One call of a layer: its kind, its batch, and its tensors.

    The input is a ``PackedSequence``, ``(T, B, I)``, ``(B, T, I)`` with ``batch_first``, or
    ``(T, I)`` without a batch.
    """
    given = args[0] if args else kwargs["input"]
    packed = isinstance(given, PackedSequence)
    if packed:
        shape, data = shapes.packed(given.batch_sizes.tolist()), given.data
    else:
        shape, data = _padded_shape(given, bool(module.batch_first), shapes, name), given
    training = module.training and spec.num_layers > 1
    kind = call_kind(packed=packed, dropout=module.dropout if training else 0.0)  # type: ignore[arg-type]
    state, cell = _states(args[1] if len(args) > 1 else kwargs.get("hx"))
    weights: Any = getattr(module, "_flat_weights", ())
    unsorted = packed and given.sorted_indices is not None
    return kind, shape, Given(data=data, state=state, cell=cell, weights=weights, unsorted=unsorted)


def read_cell(
    module: nn.Module, spec: RnnSpec, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[CallKind, BatchShape, Given]:
    """One call of a cell on ``(B, I)`` or ``(I,)``: one step, of true lengths nobody knows."""
    given: Tensor = args[0] if args else kwargs["input"]
    sequences = (given.shape[0] if given.dim() == 2 else 1) * vmapped(given)
    kind = call_kind(packed=False, dropout=0.0)
    state, cell = _states(args[1] if len(args) > 1 else kwargs.get("hx"))
    shape = BatchShape.rectangle(sequences=sequences, steps=1)
    return kind, shape, Given(data=given, state=state, cell=cell, weights=cell_weights(module))


def output_tensors(output: Any, *, cell: bool) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Output, final state and final cell state of what a layer or cell returned."""
    if cell:
        state, final_cell = _states(output)
        return None, state, final_cell
    given, final = output
    state, final_cell = _states(final)
    return (given.data if isinstance(given, PackedSequence) else given), state, final_cell


def _padded_shape(given: Tensor, batch_first: bool, shapes: ShapeReader, name: str) -> BatchShape:
    sizes = given.shape
    if len(sizes) == 2:
        return shapes.padded(1, sizes[0], given, batch_first=batch_first, name=name)
    sequences, steps = (sizes[0], sizes[1]) if batch_first else (sizes[1], sizes[0])
    return shapes.padded(sequences, steps, given, batch_first=batch_first, name=name)


def _states(given: Any) -> tuple[Tensor | None, Tensor | None]:
    if isinstance(given, (tuple, list)):
        state, cell = given
        return state, cell
    return given, None


def _kind(module: nn.Module) -> Kind | None:
    mode = getattr(module, "mode", None)
    if isinstance(mode, str):
        return _KINDS.get(mode)
    name = _quantized_name(module)
    if isinstance(module, nn.LSTMCell) or name == "LSTMCell":
        return "lstm"
    if isinstance(module, nn.GRUCell) or name == "GRUCell":
        return "gru"
    nonlinearity = getattr(module, "nonlinearity", None)
    return _KINDS.get(f"RNN_{nonlinearity}".upper())


def _quantized_name(module: nn.Module) -> str | None:
    """Recognised by name: torch.ao is deprecated, and importing it is slow."""
    names = ("LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell")
    for ancestor in type(module).__mro__:
        if ancestor.__module__ == _QUANTIZED and ancestor.__name__ in names:
            return ancestor.__name__
    return None
