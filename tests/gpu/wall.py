"""Packed against padded by nothing of rnncost's: torch's own calls, waited for, by a wall clock."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from tests.gpu.clocks import synchronize


def packed_over_padded(rnn: nn.RNNBase, lengths: Sequence[int], *, backward: bool, rounds: int = 15) -> float:
    """Median over rounds of packed seconds over padded seconds, the device idle before each call.

    Events measure a queue that may be full, where the work of the host is hidden; here none of it is.

    Args:
        rnn: the layer, on its device.
        lengths: steps of each sequence.
        backward: time the backward too.
        rounds: after two to warm up.
    """
    weight = next(rnn.parameters())
    data = torch.randn(max(lengths), len(lengths), rnn.input_size).to(weight)
    batches: dict[str, Any] = {
        "padded": data,
        "packed": pack_padded_sequence(data, torch.tensor(list(lengths)), enforce_sorted=False),
    }
    draw = random.Random(0)
    ratios = []
    with torch.set_grad_enabled(backward):
        for _ in range(rounds + 2):
            names = draw.sample(list(batches), len(batches))
            seconds = {name: _seconds(rnn, batches[name], weight.device, backward=backward) for name in names}
            ratios.append(seconds["packed"] / seconds["padded"])
    return statistics.median(ratios[2:])


def _seconds(rnn: Callable[[Any], Any], batch: Any, device: torch.device, *, backward: bool) -> float:
    synchronize(device)
    start = time.perf_counter()
    output = rnn(batch)[0]
    if backward:
        (output if isinstance(output, torch.Tensor) else output.data).sum().backward()
    synchronize(device)
    return time.perf_counter() - start
