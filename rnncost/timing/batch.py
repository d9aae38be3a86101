"""One batch of sequences that every layout runs: the same data, the same weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


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

    def __init__(self, rnn: nn.RNNBase, lengths: Sequence[int], *, seed: int = 0) -> None:
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
