"""A recurrent module of one's own, and the reader that teaches rnncost to count it.

The minimal gated unit of Zhou et al. (2016) without a reset: f = σ(W x + b + U h),
h' = h + f·(tanh(V x + c) − h). Run it with ``rnncost report rnncost/examples/minimal_gru.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import rnncost


class MinimalGRU(nn.Module):
    """One layer over padded batches ``(T, B, input_size)``; returns the last state ``(B, hidden_size)``."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_size, 2 * hidden_size)  # W and V
        self.state = nn.Linear(hidden_size, hidden_size, bias=False)  # U

    def forward(self, x: Tensor) -> Tensor:
        """Runs every step of the rectangle."""
        hidden = x.new_zeros(x.shape[1], self.state.out_features)
        for step in x.unbind():
            gate, new = self.input(step).chunk(2, dim=1)
            forget = torch.sigmoid(gate + self.state(hidden))
            hidden = hidden + forget * (torch.tanh(new) - hidden)
        return hidden


@rnncost.register_reader(MinimalGRU)
class MinimalGRUReader:
    """Says what a call of MinimalGRU computes, from sizes alone."""

    def spec(self, module: nn.Module) -> rnncost.CustomSpec:
        """What one row costs: one step of one sequence."""
        assert isinstance(module, MinimalGRU)
        inputs, units = module.input.in_features, module.state.out_features
        # Products: 2 gates with the input, 1 with the state; the input's have biases.
        products = rnncost.OpCount.product(1, 2 * units, inputs) + rnncost.OpCount.product(1, units, units)
        # A unit: the gate's sum, − h and + h are 3 adds; f·(…) is 1 mult; σ and tanh.
        cell = rnncost.OpCount(bias_adds=2 * units, gate_adds=3 * units, gate_mults=units, activations=2 * units)
        return rnncost.CustomSpec(title=f"MinimalGRU {inputs}x{units}", row=products + cell)

    def shape(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> rnncost.BatchShape:
        """The batch that the call computed: the whole rectangle."""
        steps, sequences, _ = (args[0] if args else kwargs["x"]).shape
        return rnncost.BatchShape.rectangle(sequences=sequences, steps=steps)


def build() -> tuple[nn.Module, list[Tensor]]:
    """The module and two batches of 5 sequences of 8 steps."""
    return MinimalGRU(4, 16), [torch.zeros(8, 5, 4)] * 2
