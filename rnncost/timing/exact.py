"""Runs a padded group so that padding changes nothing, with the stock kernels.

A padded run is wrong where filler reaches a state that somebody reads: at real steps of a reverse
direction, in all layers above it, and in final states. So each layer and direction is run by
itself: the reverse direction on sequences whose real steps alone are reversed, its output turned
back; final hidden states are gathered at each sequence's own last step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rnncost.timing.batch import Recurrent


class ExactGroup:
    """A group of sequences for exact padded runs: what to gather where, made once.

    Args:
        lengths: ``(b,)`` on the layer's device; the group is as wide as the longest.
        steps: the longest.

    Attributes:
        all_alike: no sequence is shorter, so that there is no filler.
    """

    def __init__(self, lengths: Tensor, *, steps: int) -> None:
        numbers = torch.arange(steps, device=lengths.device).unsqueeze(1)
        # Step t of a reversed sequence of length n is its step n − 1 − t; filler stays where it is.
        self._reversed = torch.where(numbers < lengths, lengths - 1 - numbers, numbers).unsqueeze(2)
        self._last = (lengths - 1).view(1, -1, 1)
        self.all_alike = bool((lengths == steps).all())

    def reverse(self, data: Tensor) -> Tensor:
        """Turns the real steps of ``(T, b, width)`` around; twice is nothing."""
        if self.all_alike:
            return data.flip(0)
        return data.gather(0, self._reversed.expand(-1, -1, data.shape[2]))

    def last(self, data: Tensor) -> Tensor:
        """``(b, width)``: each sequence's own last step of ``(T, b, width)``."""
        return data.gather(0, self._last.expand(-1, -1, data.shape[2])).squeeze(0)


def run_exact(rnn: Recurrent, padded: Tensor, group: ExactGroup) -> tuple[Tensor, Tensor]:
    """Outputs ``(T, b, D·R)``, right at real steps, and final hidden states ``(L·D, b, R)``.

    An LSTM's final cell state of a sequence shorter than the group is not to be had this way.
    """
    if group.all_alike:
        output, final = rnn.forward(padded.transpose(0, 1) if rnn.batch_first else padded)
        hidden = final[0] if isinstance(final, tuple) else final
        return output.transpose(0, 1) if rnn.batch_first else output, hidden
    directions = 2 if rnn.bidirectional else 1
    weights = _weights(rnn)
    states = []
    data = padded
    for layer in range(rnn.num_layers):
        if layer and rnn.dropout and rnn.training:
            data = functional.dropout(data, rnn.dropout)
        outputs = []
        for direction in range(directions):
            given = group.reverse(data) if direction else data
            output = _run_layer(rnn, given, weights[layer * directions + direction])
            states.append(group.last(output))
            outputs.append(group.reverse(output) if direction else output)
        data = outputs[0] if directions == 1 else torch.cat(outputs, dim=2)
    return data, torch.stack(states)


def _weights(rnn: Recurrent) -> list[list[Tensor]]:
    """The weights of each layer and direction, in the order of ``_flat_weights``."""
    per = 2 + 2 * bool(rnn.bias) + (rnn.proj_size > 0)
    flat: Any = rnn._flat_weights
    return [list(flat[start : start + per]) for start in range(0, len(flat), per)]


def _run_layer(rnn: Recurrent, data: Tensor, weights: list[Tensor]) -> Tensor:
    sequences, hidden = data.shape[1], rnn.hidden_size
    state = data.new_zeros(1, sequences, rnn.proj_size or hidden)
    options = (bool(rnn.bias), 1, 0.0, rnn.training, False, False)
    if rnn.mode == "LSTM":
        output: Tensor = torch.lstm(data, (state, data.new_zeros(1, sequences, hidden)), weights, *options)[0]
        return output
    kernel: Any = {"GRU": torch.gru, "RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu}[rnn.mode]
    result: Tensor = kernel(data, state, weights, *options)[0]
    return result
