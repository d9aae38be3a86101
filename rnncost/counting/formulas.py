"""Operations of recurrent modules: sizes and sums in, an OpCount out. No tensor, no I/O.

Source of the formulas: PyTorch's native kernels, ``aten/src/ATen/native/RNN.cpp`` (classes
``SimpleCell``, ``LSTMCell``, ``GRUCell``, ``FullLayer``, ``PackedLayer``); the tests compare
them with the operations that PyTorch 2.13 dispatches. G gates, I input width of a layer,
H hidden size, R = ``proj_size`` or H, N rows.
"""

from __future__ import annotations

from rnncost.counting.backward import backward, slicing_adds
from rnncost.counting.opcount import OpCount
from rnncost.counting.spec import CustomSpec, Kind, RnnSpec, Spec
from rnncost.counting.tally import Tally

__all__ = ["backward", "forward", "forward_row", "slicing_adds"]

# Per hidden unit and row: (mults, adds, activations) of the cell, the gate sums included.
# LSTM: sums of 4 gates; c' = f·c + i·g and h' = o·tanh(c'); 3 sigmoids, 2 tanh.
# GRU:  sums of 3 gates; n uses r·h_n, h' = (h − n)·z + n; 2 sigmoids, 1 tanh.
# RNN:  the sum of its one gate; its tanh or relu.
_CELL: dict[Kind, tuple[int, int, int]] = {
    "lstm": (3, 5, 5),
    "gru": (2, 5, 3),
    "rnn_tanh": (0, 1, 1),
    "rnn_relu": (0, 1, 1),
}


def forward(spec: Spec, tally: Tally, *, dropout_mults: int = 0) -> OpCount:
    """Operations of the forward passes that ``tally`` sums up.

    Args:
        spec: the module.
        tally: its calls; only ``rows`` matters, so packed and padded differ by rows alone.
        dropout_mults: as in :class:`CallKind`; scaling the mask, a division, counts as a mult.
    """
    row = forward_row(spec)
    if dropout_mults and isinstance(spec, RnnSpec):
        row += OpCount(gate_mults=dropout_mults * sum(spec.layer_input_sizes[1:]))
    return row * tally.rows


def forward_row(spec: Spec) -> OpCount:
    """Operations of one row: one step of one sequence through all layers and directions."""
    if isinstance(spec, CustomSpec):
        return spec.row
    above = _cell(spec, spec.output_size * spec.directions) * (spec.num_layers - 1)
    return (_cell(spec, spec.input_size) + above) * spec.directions


def _cell(spec: RnnSpec, input_size: int) -> OpCount:
    width = spec.gates * spec.hidden_size
    mults, adds, activations = _CELL[spec.kind]
    count = OpCount.product(1, width, input_size) + OpCount.product(1, width, spec.output_size)
    if spec.proj_size:
        count += OpCount.product(1, spec.proj_size, spec.hidden_size)
    return count + OpCount(
        # b_ih and b_hh are each added to every row; h_0 = 0 is multiplied like any other state.
        bias_adds=2 * width if spec.bias else 0,
        gate_mults=mults * spec.hidden_size,
        gate_adds=adds * spec.hidden_size,
        activations=activations * spec.hidden_size,
    )
