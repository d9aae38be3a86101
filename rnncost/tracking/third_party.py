"""Readers for recurrent layers of other libraries, found by name: none is imported here."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rnncost.counting.opcount import OpCount
from rnncost.counting.shape import BatchShape
from rnncost.counting.spec import CustomSpec, RnnSpec
from rnncost.errors import UnsupportedModuleError
from rnncost.tracking.readers import register_name

_TORCHRL = "torchrl.modules.tensordict_module.rnn"


@register_name(f"{_TORCHRL}.LSTM")
@register_name(f"{_TORCHRL}.GRU")
@register_name(f"{_TORCHRL}.LSTMCell")
@register_name(f"{_TORCHRL}.GRUCell")
class TorchrlReader:
    """TorchRL's layers and cells in Python, which do the arithmetic of torch's own, on padded input."""

    def spec(self, module: nn.Module) -> RnnSpec:
        """The sizes, as torch's own modules name them."""
        kind = "lstm" if type(module).__name__.startswith("LSTM") else "gru"
        names: dict[str, Any] = {"input_size": module.input_size, "hidden_size": module.hidden_size}
        if isinstance(module, nn.RNNBase):
            names["num_layers"] = module.num_layers
        is_cell = not isinstance(module, nn.RNNBase)
        return RnnSpec(kind=kind, bias=bool(module.bias), cell=is_cell, **names)  # type: ignore[arg-type]

    def shape(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> BatchShape:
        """A rectangle; a cell's is one step wide."""
        sizes = (args[0] if args else kwargs["input"]).shape
        if not isinstance(module, nn.RNNBase):
            return BatchShape.rectangle(sequences=sizes[0] if len(sizes) == 2 else 1, steps=1)
        sequences, steps = (sizes[0], sizes[1]) if module.batch_first else (sizes[1], sizes[0])
        return BatchShape.rectangle(sequences=sequences, steps=steps)


@register_name("sru.modules.SRU")
class SruReader:
    """SRU (Lei et al. 2018), which unpacks a ``PackedSequence`` and computes the whole rectangle.

    A row is a product of the input with all gate matrices and, for each output unit, two gates
    (4 adds, 2 mults, 2 sigmoids), the state (2 adds, 1 mult) and the highway output (2 adds, 1
    mult); masking padding and scaling the highway are left out.
    """

    def spec(self, module: nn.Module) -> CustomSpec:
        """All layers together."""
        layers: Any = module.rnn_lst
        row = OpCount()
        if module.input_to_hidden is not None:
            linear: Any = module.input_to_hidden
            row += OpCount.product(1, linear.out_features, linear.in_features)
        for cell in layers:
            row += _sru_row(cell)
        first, count = layers[0], len(layers)
        title = f"SRU {first.input_size}x{first.hidden_size}" + (f"x{count}" if count > 1 else "")
        return CustomSpec(title=title + (" bi" if first.bidirectional else ""), row=row)

    def shape(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> BatchShape:
        """The rectangle, with the lengths that a packed input tells."""
        given = args[0] if args else kwargs["input"]
        if isinstance(given, PackedSequence):
            packed = BatchShape.from_batch_sizes(given.batch_sizes.tolist())
            lengths = [length for length, number in packed.length_counts or () for _ in range(number)]
            return BatchShape.rectangle(sequences=packed.sequences, steps=packed.steps, lengths=lengths)
        return BatchShape.rectangle(sequences=given.shape[1], steps=given.shape[0])


@register_name("sru.modules.SRUCell")
class SruCellReader:
    """One layer of SRU called by itself."""

    def spec(self, module: nn.Module) -> CustomSpec:
        """The layer."""
        title = f"SRU layer {module.input_size}x{module.hidden_size}" + (" bi" if module.bidirectional else "")
        return CustomSpec(title=title, row=_sru_row(module))

    def shape(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> BatchShape:
        """The rectangle of ``(T, B, I)``, or one step of ``(B, I)``."""
        given: Tensor = args[0] if args else kwargs["input"]
        steps = given.shape[0] if given.dim() == 3 else 1
        return BatchShape.rectangle(sequences=given.shape[-2], steps=steps)


def _sru_row(cell: Any) -> OpCount:
    if cell.custom_m is not None:
        raise UnsupportedModuleError("an SRU with a module of one's own (custom_m) needs a reader; see register_reader")
    width, units = cell.output_size * cell.num_matrices, cell.output_size
    if cell.projection_size:
        row = OpCount.product(1, cell.projection_size, cell.input_size) + OpCount.product(
            1, width, cell.projection_size
        )
    else:
        row = OpCount.product(1, width, cell.input_size)
    activations = 3 if cell.activation_type else 2
    gates = OpCount(bias_adds=2 * units, gate_mults=4 * units, gate_adds=6 * units, activations=activations * units)
    return row + gates
