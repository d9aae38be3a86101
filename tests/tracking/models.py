"""Models of the tracking tests."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    """Packs inside its forward, as taggers do: ``encoder`` packed, then ``decoder`` padded."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(8, 5, batch_first=True)

    def forward(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        states, _ = self.encoder(packed)
        padded, _ = pad_packed_sequence(states, batch_first=True)
        output: Tensor = self.decoder(padded)[0]
        return output


class SubLSTM(nn.LSTM):
    """A subclass that changes nothing."""


class Twice(nn.Module):
    """Calls one layer twice, and has it under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.GRU(3, 3)
        self.second = self.first

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.second(self.first(x)[0])[0]
        return output


class Failing(nn.Module):
    """Runs its recurrent layer, then raises."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.rnn(x)
        raise KeyError("from forward")


class Holder(nn.Module):
    def __init__(self, rnn: nn.Module) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.rnn(x)[0]
        return output
