"""Builds modules and batches for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from rnncost.counting.spec import RnnSpec


def build_module(spec: RnnSpec, *, batch_first: bool = False, dropout: float = 0.0) -> nn.LSTM | nn.GRU | nn.RNN:
    options: dict[str, Any] = {
        "num_layers": spec.num_layers,
        "bias": spec.bias,
        "bidirectional": spec.bidirectional,
        "batch_first": batch_first,
        "dropout": dropout,
    }
    if spec.kind == "lstm":
        return nn.LSTM(spec.input_size, spec.hidden_size, proj_size=spec.proj_size, **options)
    if spec.kind == "gru":
        return nn.GRU(spec.input_size, spec.hidden_size, **options)
    nonlinearity = spec.kind.removeprefix("rnn_")
    return nn.RNN(spec.input_size, spec.hidden_size, nonlinearity=nonlinearity, **options)


def padded_batch(lengths: Sequence[int], features: int, *, batch_first: bool = False) -> Tensor:
    """Random values with zeros in the padding, ``(T, B, features)`` or ``(B, T, features)``."""
    data = torch.zeros(len(lengths), max(lengths), features)
    for row, length in enumerate(lengths):
        data[row, :length] = torch.randn(length, features)
    return data if batch_first else data.transpose(0, 1).contiguous()


def packed_batch(
    lengths: Sequence[int], features: int, *, batch_first: bool = False, enforce_sorted: bool = False
) -> PackedSequence:
    """Packed without sorting unless ``enforce_sorted``, which sorts the lengths first."""
    if enforce_sorted:
        lengths = sorted(lengths, reverse=True)
    data = padded_batch(lengths, features, batch_first=batch_first)
    return pack_padded_sequence(data, torch.tensor(lengths), batch_first=batch_first, enforce_sorted=enforce_sorted)


def on_meta(batch: Any) -> Any:
    """The same batch without values. (``PackedSequence.to`` is typed for its dtype alone.)"""
    return batch.to("meta")
