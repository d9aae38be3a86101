"""What every layout runs: the same data, and a private copy of the layer with the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

Recurrent = nn.LSTM | nn.GRU | nn.RNN


def private_copy(rnn: nn.RNNBase, *, device: torch.device | str | None = None) -> Recurrent:
    """A plain layer with the effective weights of ``rnn``, on its device or another.

    It has no hooks and no parametrisation, and training it trains nothing of ``rnn``. A weight
    requires grad where the original's does.
    """
    weights: Any = rnn._flat_weights
    options: dict[str, Any] = {
        "num_layers": rnn.num_layers,
        "bias": rnn.bias,
        "batch_first": rnn.batch_first,
        "dropout": rnn.dropout,
        "bidirectional": rnn.bidirectional,
        "device": weights[0].device if device is None else device,
        "dtype": weights[0].dtype,
    }
    sizes = (rnn.input_size, rnn.hidden_size)
    copy: Recurrent
    if rnn.mode == "LSTM":
        copy = nn.LSTM(*sizes, proj_size=rnn.proj_size, **options)
    elif rnn.mode == "GRU":
        copy = nn.GRU(*sizes, **options)
    else:
        copy = nn.RNN(*sizes, nonlinearity=rnn.mode.removeprefix("RNN_").lower(), **options)
    ours: Any = copy._flat_weights
    with torch.no_grad():
        for own, weight in zip(ours, weights, strict=True):
            own.copy_(weight.detach())
            own.requires_grad_(weight.requires_grad)
    return copy.train(rnn.training)


class SequenceBatch:
    """Random sequences of given lengths for a layer, padded with zeros, steps first.

    Args:
        rnn: the layer that will run them: gives device, dtype and width.
        lengths: steps of each sequence, in the batch's order.
        seed: of the values.

    Attributes:
        padded: ``(T, B, input_size)``.
        lengths: ``(B,)`` on the CPU, where packing wants them.
    """

    def __init__(self, rnn: Recurrent, lengths: Sequence[int], *, seed: int = 0) -> None:
        weight = next(iter(rnn.parameters()))
        values = torch.Generator().manual_seed(seed)
        padded = torch.zeros(max(lengths), len(lengths), rnn.input_size)
        for row, length in enumerate(lengths):
            padded[:length, row] = torch.randn(length, rnn.input_size, generator=values)
        self.padded: Tensor = padded.to(device=weight.device, dtype=weight.dtype)
        self.lengths = torch.tensor(list(lengths))
        self.order = torch.argsort(self.lengths, descending=True, stable=True)

    @property
    def sequences(self) -> int:
        """B."""
        return int(self.lengths.shape[0])

    def sorted_lengths(self) -> list[int]:
        """Lengths, longest first."""
        return [int(length) for length in self.lengths[self.order]]
