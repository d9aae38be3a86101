"""What rnncost reads off a recurrent module and off one call of it: sizes, never values."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.utils.rnn import PackedSequence

from rnncost.counting.spec import Kind, RnnSpec
from rnncost.tracking.hooks import Hook
from rnncost.tracking.recorder import QUEUE_LENGTH, Recorder

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


class SizesHook(Hook):
    """Reads the sizes of each call of an RNN, GRU or LSTM into a recorder.

    ``batch_sizes`` lies on the CPU whatever the device of the data, so nothing here waits for
    an accelerator. All is in one function, since a frame more costs as much as the reading.
    """

    __slots__ = ("_append", "_queue", "_recorder")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._queue = recorder.queue
        self._append = recorder.queue.append

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        given = args[0] if args else kwargs["input"]
        if isinstance(given, PackedSequence):
            self._append(given.batch_sizes.tolist())
        else:
            shape = given.shape  # (T, B, I); (B, T, I) with batch_first; (T, I) without a batch
            if len(shape) == 2:
                self._append((1, shape[0]))
            elif module.batch_first:
                self._append((shape[0], shape[1]))
            else:
                self._append((shape[1], shape[0]))
        if len(self._queue) >= QUEUE_LENGTH:
            self._recorder.sum_queue()
