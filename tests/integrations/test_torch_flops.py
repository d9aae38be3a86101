"""Recurrent kernels inside FlopCounterMode: oneDNN, cuDNN, inference mode, quantised."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import rnncost
from rnncost.counting.spec import GATES, RnnSpec
from rnncost.integrations.torch_flops import RNN_FLOP_FORMULAS
from tests.builders import build_module, packed_batch, padded_batch
from tests.oracle import native_kernels

LENGTHS = (5, 4, 4, 1)
pytestmark = pytest.mark.filterwarnings("ignore")


def counter() -> FlopCounterMode:
    return FlopCounterMode(display=False, custom_mapping=RNN_FLOP_FORMULAS)


def step(module: nn.Module, x: Any, *, hx: Any = None) -> int:
    with counter() as flops:
        module(x, hx)[0].sum().backward()
    return int(flops.get_total_flops())


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_the_total_does_not_depend_on_onednn(layers: int, bidirectional: bool, bias: bool, batch_first: bool) -> None:
    module = nn.LSTM(3, 4, layers, bias=bias, bidirectional=bidirectional, batch_first=batch_first)
    x = padded_batch(LENGTHS, 3, batch_first=batch_first)
    rows = layers * (1 + bidirectional)
    for input_grad, state_grad in itertools.product((False, True), repeat=2):
        x.requires_grad_(input_grad)
        hx = (torch.zeros(rows, 4, 4, requires_grad=state_grad), torch.zeros(rows, 4, 4, requires_grad=state_grad))
        with native_kernels():
            native = step(module, x, hx=hx)
            with FlopCounterMode(display=False) as plain:
                module(x, hx)[0].sum().backward()
        assert step(module, x, hx=hx) == native == plain.get_total_flops()


def test_frozen_weights() -> None:
    module, x = nn.LSTM(3, 4), padded_batch(LENGTHS, 3)
    module.weight_hh_l0.requires_grad_(False)
    with native_kernels():
        native = step(module, x)
    assert step(module, x) == native


def test_without_the_formulas_onednn_hides_all() -> None:
    with FlopCounterMode(display=False) as flops:
        nn.LSTM(3, 4)(padded_batch(LENGTHS, 3))
    assert flops.get_total_flops() == 0


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("packed", [False, True])
def test_inference_mode(kind: Any, packed: bool) -> None:
    module = kind(3, 4, 2, bidirectional=True)
    batch = (packed_batch if packed else padded_batch)(LENGTHS, 3)
    with torch.inference_mode(), counter() as flops:
        module(batch)
    assert flops.get_total_flops() == rnncost.analyze(module, batch).executed.flops


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("packed", [False, True])
def test_quantised(kind: Any, packed: bool) -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(kind(3, 4, 2, bidirectional=True)), {kind})
    batch = (packed_batch if packed else padded_batch)(LENGTHS, 3)
    with counter() as flops:
        model(batch)
    assert flops.get_total_flops() == rnncost.analyze(model, batch).executed.flops > 0


cudnn_rnn = RNN_FLOP_FORMULAS[torch.ops.aten._cudnn_rnn]
cudnn_rnn_backward = RNN_FLOP_FORMULAS[torch.ops.aten._cudnn_rnn_backward]


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_quantised_cells(kind: Any) -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(kind(3, 4)), {kind})
    with counter() as flops:
        model(torch.zeros(5, 3))
    assert flops.get_total_flops() == rnncost.analyze(model, torch.zeros(5, 3)).executed.flops > 0


MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}


def cudnn_arguments(spec: RnnSpec, data: torch.Tensor, batch_sizes: list[int]) -> dict[str, Any]:
    layers = spec.num_layers * spec.directions
    hx = torch.zeros(layers, len(LENGTHS), spec.output_size, device="meta")
    return {
        "input": data,
        "weight": [],
        "weight_stride0": 4,
        "weight_buf": None,
        "hx": hx,
        "cx": hx if spec.kind == "lstm" else None,
        "mode": MODES[spec.kind],
        "hidden_size": spec.hidden_size,
        "proj_size": spec.proj_size,
        "num_layers": spec.num_layers,
        "batch_first": False,
        "dropout": 0.0,
        "train": True,
        "bidirectional": spec.bidirectional,
        "batch_sizes": batch_sizes,
        "dropout_state": None,
    }


def names(operator: Any) -> list[str]:
    return [argument.name for argument in operator._schema.arguments]


@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("packed", [False, True])
def test_cudnn_by_its_real_signature(kind: Any, packed: bool) -> None:
    spec = RnnSpec(kind=kind, input_size=3, hidden_size=4, num_layers=2, bidirectional=True)
    sizes = [4, 3, 3, 3, 1] if packed else []
    data = torch.zeros(14, 3, device="meta") if packed else torch.zeros(5, 4, 3, device="meta")
    arguments = cudnn_arguments(spec, data, sizes)
    assert list(arguments) == names(torch.ops.aten._cudnn_rnn.default)
    module = build_module(spec)
    expected = rnncost.analyze(module, (packed_batch if packed else padded_batch)(LENGTHS, 3)).executed.flops
    assert cudnn_rnn(*arguments.values(), out_val=None) == expected
    backward = {
        **{name: arguments.get(name) for name in names(torch.ops.aten._cudnn_rnn_backward.default)},
        "output_mask": [True, True, True, True],
    }
    assert cudnn_rnn_backward(*backward.values(), out_val=None) == 2 * expected
    backward["output_mask"] = [True, True, True, False]
    assert cudnn_rnn_backward(*backward.values(), out_val=None) == expected


def test_a_projection_under_cudnn() -> None:
    spec = RnnSpec(kind="lstm", input_size=3, hidden_size=4, proj_size=2)
    arguments = cudnn_arguments(spec, torch.zeros(5, 4, 3, device="meta"), [])
    executed = rnncost.analyze(build_module(spec), padded_batch(LENGTHS, 3)).executed
    assert cudnn_rnn(*arguments.values(), out_val=None) == executed.flops


def test_miopen_by_its_real_signature() -> None:
    spec = RnnSpec(kind="gru", input_size=3, hidden_size=4)
    arguments = cudnn_arguments(spec, torch.zeros(5, 4, 3, device="meta"), [])
    ours = {name: arguments[name] for name in names(torch.ops.aten.miopen_rnn.default)}
    executed = rnncost.analyze(build_module(spec), padded_batch(LENGTHS, 3)).executed
    assert RNN_FLOP_FORMULAS[torch.ops.aten.miopen_rnn](*ours.values(), out_val=None) == executed.flops
    backward = {
        **{name: arguments.get(name) for name in names(torch.ops.aten.miopen_rnn_backward.default)},
        "output_mask": [True, True, True, True],
    }
    formula = RNN_FLOP_FORMULAS[torch.ops.aten.miopen_rnn_backward]
    assert formula(*backward.values(), out_val=None) == 2 * executed.flops


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_cudnn_on_a_device(kind: Any, packed: bool) -> None:
    module = kind(3, 4, 2, bidirectional=True).cuda()
    batch: Any = (packed_batch if packed else padded_batch)(LENGTHS, 3)
    batch = batch.to("cuda")
    with counter() as flops:
        module(batch)
    executed = rnncost.analyze(module, batch).executed.flops
    assert flops.get_total_flops() == executed
    with counter() as flops:
        (module(batch)[0].data if packed else module(batch)[0]).sum().backward()
    assert flops.get_total_flops() >= 3 * executed
