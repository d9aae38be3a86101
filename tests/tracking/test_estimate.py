"""Estimates equal what a tracker counts on the same batches, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import rnncost
from rnncost.counting import BatchShape, RnnSpec, Tally
from rnncost.counting.dataset import Dataset
from rnncost.errors import LengthsError, SpecError, UnsupportedModuleError
from tests.builders import build_module, packed_batch, padded_batch
from tests.counting.test_formulas import any_spec
from tests.tracking.models import Holder, Tagger

any_lengths = st.lists(st.integers(1, 12), min_size=1, max_size=9)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.integers(1, 12), st.booleans(), st.integers(0, 5))
def test_a_data_set_is_the_sum_of_its_batches(lengths: list[int], size: int, packed: bool, extra: int) -> None:
    width = max(lengths) + extra if extra else None
    batches = [lengths[start : start + size] for start in range(0, len(lengths), size)]
    shapes = [BatchShape.from_lengths(batch, packed=packed, padded_length=width) for batch in batches]
    expected = sum(map(Tally.of, shapes), start=Tally())
    dataset = Dataset(lengths, batch_size=size, packed=packed, padded_length=width)
    assert dataset.tally() == expected
    assert {sample.shape for sample in dataset.sample()} <= set(shapes)
    assert len(dataset.sample()) == min(32, len(batches))


def test_a_data_set_beyond_64_bits_stays_exact() -> None:
    assert Dataset([10**12, 10**12, 1]).tally() == Tally.of(BatchShape.from_lengths([10**12, 10**12, 1]))


@settings(max_examples=60)
@given(spec=any_spec(), lengths=any_lengths, size=st.integers(1, 4), packed=st.booleans(), input_grad=st.booleans())
def test_an_estimate_equals_a_tracker(
    spec: RnnSpec, lengths: list[int], size: int, packed: bool, input_grad: bool
) -> None:
    module = build_module(spec)
    with rnncost.CostTracker(module, backward=True) as tracker:
        for start in range(0, len(lengths), size):
            batch_lengths = sorted(lengths[start : start + size], reverse=True)
            if not packed:
                tracker.set_lengths(batch_lengths)
            options: dict[str, Any] = {"enforce_sorted": True} if packed else {}
            batch: Any = (packed_batch if packed else padded_batch)(batch_lengths, spec.input_size, **options)
            (batch.data if packed else batch).requires_grad_(input_grad)
            output, _ = module(batch)
            (output.data if packed else output).sum().backward()
    options = {"layout": "packed" if packed else "padded", "batch_size": size, "backward": True}
    for model in (module, spec):
        estimated = rnncost.estimate(model, lengths, input_grad=input_grad, **options)
        assert estimated.forward == tracker.report.forward
        assert estimated.backward == tracker.report.backward
    assert [(layer.name, layer.calls) for layer in rnncost.estimate(module, lengths, **options).layers] == [
        (layer.name, layer.calls) for layer in tracker.report.layers
    ]


def test_every_recurrent_module_of_a_model() -> None:
    report = rnncost.estimate(Tagger(), [6, 2, 3])
    assert [(layer.name, layer.tally.rows, layer.source) for layer in report.layers] == [
        ("encoder", 11, "estimate"),
        ("decoder", 11, "estimate"),
    ]


def test_frozen_weights_and_dropout_are_read_off_the_module() -> None:
    module = nn.LSTM(3, 4, 2, dropout=0.5)
    module.weight_ih_l0.requires_grad_(False)
    with rnncost.CostTracker(module, backward=True) as tracker:
        module(padded_batch([5, 4], 3))[0].sum().backward()
    estimated = rnncost.estimate(module, [5, 4], layout="padded", backward=True)
    assert estimated.forward.executed == tracker.report.forward.executed
    assert estimated.backward.executed == tracker.report.backward.executed


@pytest.mark.parametrize("cell", [nn.GRUCell(3, 4), nn.RNNCell(3, 4), nn.LSTMCell(3, 4)])
def test_cells_are_loops_over_steps(cell: nn.Module) -> None:
    estimated = rnncost.estimate(nn.Sequential(cell), [3, 1, 3], backward=True, batch_size=2)
    with rnncost.CostTracker(nn.Sequential(cell), backward=True) as tracker:
        for sizes in ((2, 1, 1), (1, 1, 1)):
            state: Any = None
            for size in sizes:
                if state is not None:
                    state = tuple(part[:size] for part in state) if isinstance(state, tuple) else state[:size]
                state = cell(torch.zeros(size, 3), state)
            (state[0] if isinstance(state, tuple) else state).sum().backward()
    ours, counted = estimated.layers[0], tracker.report.layers[0]
    assert (ours.name, ours.calls) == (counted.name, counted.calls)
    assert ours.backward.executed == counted.backward.executed


def test_the_input_of_a_second_layer_wants_a_gradient() -> None:
    model = nn.Sequential(Holder(nn.GRU(3, 4)), Holder(nn.GRU(4, 5)))
    with rnncost.CostTracker(model, backward=True) as tracker:
        model(padded_batch([5, 4], 3)).sum().backward()
    estimated = rnncost.estimate(model, [5, 4], layout="padded", backward=True)
    assert [layer.backward.executed for layer in estimated.layers] == [
        layer.backward.executed for layer in tracker.report.layers
    ]
    by_name = rnncost.estimate(model, [5, 4], layout="padded", backward=True, input_grad={"1.rnn": True})
    assert by_name.backward == estimated.backward


@pytest.mark.filterwarnings("ignore")
def test_what_has_no_backward_or_an_own_forward() -> None:
    quantised = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.LSTM(3, 4)), {nn.LSTM})
    assert rnncost.estimate(quantised, [5, 3], backward=True).backward.executed.macs == 0

    class Own(nn.GRU):
        def forward(self, x: Any) -> Any:  # type: ignore[override]
            return x

    report = rnncost.estimate(nn.Sequential(Own(3, 4)), [5, 3])
    assert (report.layers, report.uncounted[0].name) == ((), "0")
    assert "its forward is its own" in report.uncounted[0].reason


def test_widths_beyond_64_bits_stay_exact() -> None:
    report = rnncost.estimate("lstm:2x2", [1], padded_length=4 * 10**9, layout="padded")
    assert report.layers[0].tally.step_rows == (4 * 10**9) ** 2


def test_a_model_too_large_for_any_memory() -> None:
    with torch.device("meta"):
        model = nn.LSTM(8192, 16384, num_layers=3, bidirectional=True)
    report = rnncost.estimate(model, [100, 50], backward=True)
    assert sum(weight.numel() for weight in model.parameters()) > 10**9
    assert report.executed.macs > 10**12


def test_real_verse_lengths() -> None:
    lengths = [int(line) for line in (Path(__file__).parents[1] / "data" / "kjv_verse_lengths.txt").read_text().split()]
    report = rnncost.estimate("lstm:128x256", np.array(lengths), batch_size=np.int64(64))
    tally = report.layers[0].tally
    assert (tally.calls, tally.sequences, tally.rows) == (486, 31_102, 789_634)
    expected = sum(
        max(lengths[start : start + 64]) * len(lengths[start : start + 64]) for start in range(0, 31_102, 64)
    )
    assert tally.padded_rows == expected


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("lstm:12x64x2:bi", RnnSpec(kind="lstm", input_size=12, hidden_size=64, num_layers=2, bidirectional=True)),
        ("GRU:3x4", RnnSpec(kind="gru", input_size=3, hidden_size=4)),
        ("rnn:3x4:nobias", RnnSpec(kind="rnn_tanh", input_size=3, hidden_size=4, bias=False)),
        ("rnn_relu:3x4", RnnSpec(kind="rnn_relu", input_size=3, hidden_size=4)),
        ("lstm:3x4:proj=2:bi", RnnSpec(kind="lstm", input_size=3, hidden_size=4, proj_size=2, bidirectional=True)),
    ],
)
def test_specs_are_read_from_text(text: str, spec: RnnSpec) -> None:
    assert RnnSpec.parse(text) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write one like lstm:12x64x2:bi"),
        ("lstm", "write one like"),
        ("elman:3x4", "write one like"),
        ("lstm:3", "'3' in 'lstm:3' is not INPUTxHIDDEN"),
        ("lstm:3x4x5x6", "is not INPUTxHIDDEN"),
        ("lstm:3x-4", "is not INPUTxHIDDEN"),
        ("lstm:3x4:both", "'both' in 'lstm:3x4:both' is not an option"),
        ("lstm:3x4:proj=x", "is not an option"),
        ("gru:3x4:proj=2", "only an LSTM can have a projection"),
        ("lstm:0x4", "input_size is 0"),
    ],
)
def test_specs_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        RnnSpec.parse(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": True}, "batch_size is True"),
        ({"batch_size": 2.0}, r"batch_size is 2\.0"),
        ({"padded_length": 2}, "padded_length is 2, but the longest"),
        ({"layout": "bucketed"}, "layout is 'bucketed'"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LengthsError, match=message):
        rnncost.estimate("lstm:3x4", [3, 1], **options)


def test_what_cannot_be_estimated() -> None:
    with pytest.raises(UnsupportedModuleError, match="int is neither"):
        rnncost.estimate(3, [1])  # type: ignore[arg-type]
    with pytest.raises(LengthsError, match="0 at position 2"):
        rnncost.estimate("lstm:3x4", [3, 0])
