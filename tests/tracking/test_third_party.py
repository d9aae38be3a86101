"""Recurrent layers of other libraries, where they are installed (tests/benchmarks/real_models.py installs them)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import rnncost
from tests.builders import packed_batch, padded_batch
from tests.oracle import dispatched, native_kernels, same_operations

LENGTHS = (5, 4, 4, 1)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", ["LSTM", "GRU", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("whole_process", [False, True])
def test_torchrl(name: str, whole_process: bool) -> None:
    module = getattr(pytest.importorskip("torchrl.modules"), name)(3, 4)
    x = torch.zeros(2, 3) if name.endswith("Cell") else padded_batch(LENGTHS, 3, batch_first=True)
    with torch.no_grad(), rnncost.CostTracker(None if whole_process else module) as tracker, dispatched() as ops:
        module(x)
    assert same_operations(tracker.report.executed, ops.count)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("whole_process", [False, True])
def test_sru_computes_the_whole_rectangle(packed: bool, whole_process: bool) -> None:
    sru = pytest.importorskip("sru")
    model = nn.Sequential(sru.SRU(3, 4, num_layers=2, bidirectional=True))
    batch: Any = (packed_batch if packed else padded_batch)(LENGTHS, 3)
    with rnncost.CostTracker(None if whole_process else model) as tracker:
        model(batch)
    with native_kernels(), FlopCounterMode(display=False) as flops:
        model(batch)
    report = tracker.report
    assert [layer.tally.calls for layer in report.layers] == [1]
    assert (report.layers[0].tally.rows, report.layers[0].tally.packed_rows) == (20, 14 if packed else None)
    assert report.executed.flops == flops.get_total_flops()
