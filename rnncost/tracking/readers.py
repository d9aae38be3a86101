"""What rnncost reads off a recurrent module and off one call of it: sizes, never values."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from rnncost.counting.spec import Kind, RnnSpec
from rnncost.tracking.recorder import Recorder

_KINDS: dict[str, Kind] = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


def is_recurrent(module: nn.Module) -> bool:
    """Whether ``module`` is an RNN, GRU or LSTM that rnncost can count."""
    return isinstance(module, nn.RNNBase) and module.mode in _KINDS


def read_spec(module: nn.Module) -> RnnSpec:
    """The sizes and options of a recurrent module."""
    assert isinstance(module, nn.RNNBase)
    return RnnSpec(
        kind=_KINDS[module.mode],
        input_size=module.input_size,
        hidden_size=module.hidden_size,
        num_layers=module.num_layers,
        bias=module.bias,
        bidirectional=module.bidirectional,
        proj_size=module.proj_size,
    )


def record_call(recorder: Recorder, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Records one call of a recurrent module, reading only sizes.

    ``batch_sizes`` lies on the CPU whatever the device of the data, so nothing here waits for
    an accelerator.

    Args:
        recorder: where the call is added.
        module: the module that was called.
        args: its positional arguments: the input is a ``PackedSequence``, ``(T, B, I)``,
            ``(B, T, I)`` with ``batch_first``, or ``(T, I)`` without a batch.
        kwargs: its keyword arguments.
    """
    given = args[0] if args else kwargs["input"]
    if isinstance(given, nn.utils.rnn.PackedSequence):
        recorder.add_packed(given.batch_sizes.tolist(), given.data.shape[0])
        return
    shape: torch.Size = given.shape
    if len(shape) == 2:
        recorder.add_padded(1, shape[0])
    elif module.batch_first:
        recorder.add_padded(shape[0], shape[1])
    else:
        recorder.add_padded(shape[1], shape[0])
