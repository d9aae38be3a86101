"""Recurrent operators inside fvcore, against the operations that torch dispatches."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from fvcore.nn import FlopCountAnalysis
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

import rnncost
from rnncost.counting.spec import GATES
from rnncost.integrations.fvcore import RNN_OP_HANDLES
from tests.builders import build_module, padded_batch
from tests.counting.test_formulas import specs
from tests.oracle import native_kernels

LENGTHS = (5, 4, 4, 1)
pytestmark = pytest.mark.filterwarnings("ignore")
logging.getLogger("fvcore").setLevel(logging.ERROR)


class Packs(nn.Module):
    def __init__(self, rnn: nn.Module, features: int) -> None:
        super().__init__()
        self.rnn = rnn
        self.score = nn.Linear(features, 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        output, _ = self.rnn(pack_padded_sequence(x, lengths))
        scores: Tensor = self.score(pad_packed_sequence(output)[0])
        return scores


def analysis(model: nn.Module, inputs: Any) -> FlopCountAnalysis:
    return FlopCountAnalysis(model, inputs).set_op_handle(**RNN_OP_HANDLES)


@pytest.mark.parametrize("spec", [spec for kind in GATES for spec in specs(kind)], ids=str)
def test_padded_and_packed(spec: Any) -> None:
    module, x = build_module(spec), padded_batch(LENGTHS, spec.input_size)
    found = analysis(module, x)
    assert found.total() == rnncost.analyze(module, x).executed.macs
    assert not found.unsupported_ops()
    model, lengths = Packs(module, spec.output_size * spec.directions), torch.tensor(LENGTHS)
    found = analysis(model, (x, lengths))
    executed = rnncost.analyze(model, x, lengths).executed.macs
    assert found.by_module()["rnn"] == executed
    assert found.total() == executed + found.by_module()["score"]
    assert not found.unsupported_ops()
    with native_kernels(), FlopCounterMode(display=False) as flops:
        model(x, lengths)
    assert flops.get_total_flops() == 2 * found.total()


def test_bare_fvcore_says_nothing() -> None:
    assert FlopCountAnalysis(nn.LSTM(3, 4), padded_batch(LENGTHS, 3)).total() == 0


@pytest.mark.parametrize(
    "cell", [nn.RNNCell(3, 4), nn.RNNCell(3, 4, nonlinearity="relu"), nn.GRUCell(3, 4), nn.LSTMCell(3, 4)]
)
@pytest.mark.parametrize("batched", [True, False])
def test_cells(cell: nn.Module, batched: bool) -> None:
    x = torch.zeros(5, 3) if batched else torch.zeros(3)
    assert analysis(cell, x).total() == rnncost.analyze(cell, x).executed.macs


def test_batch_first() -> None:
    module, x = nn.GRU(3, 4, batch_first=True), padded_batch(LENGTHS, 3, batch_first=True)
    assert analysis(module, x).total() == rnncost.analyze(module, x).executed.macs
