"""Forward formulas against hand arithmetic and against the operations that torch dispatches."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from rnncost.counting import BatchShape, OpCount, RnnSpec, Tally, formulas
from rnncost.counting.spec import GATES, Kind
from tests.builders import build_module, on_meta, packed_batch, padded_batch
from tests.oracle import dispatched, native_kernels, same_operations

KINDS: tuple[Kind, ...] = tuple(GATES)
LENGTHS = (5, 4, 4, 1)


def test_one_row_of_lstm_2_3() -> None:
    spec = RnnSpec(kind="lstm", input_size=2, hidden_size=3)
    # 4 gates of 3 units: 12 dot products with the 2 inputs and 12 with the 3 states.
    # MACs 12·2 + 12·3 = 60; adds inside them 12·1 + 12·2 = 36; two biases 2·12 = 24.
    # Cell, per unit: f·c, i·g, o·tanh(c') = 3 mults; 4 gate sums and 1 in c' = 5 adds;
    # 3 sigmoids and 2 tanhs = 5 activations.
    row = formulas.forward(spec, Tally.of(BatchShape.from_lengths([1])))
    assert row == OpCount(matmul_mults=60, matmul_adds=36, bias_adds=24, gate_mults=9, gate_adds=15, activations=15)
    assert (row.macs, row.flops, row.mults, row.adds) == (60, 120, 69, 75)


def test_lstm_2_3_on_lengths_5_and_2() -> None:
    spec = RnnSpec(kind="lstm", input_size=2, hidden_size=3)
    tally = Tally.of(BatchShape.from_lengths([5, 2]))
    executed, padded = formulas.forward(spec, tally), formulas.forward(spec, tally.as_padded())
    assert (tally.rows, tally.padded_rows) == (7, 10)
    assert (executed.mults, padded.mults) == (7 * 69, 10 * 69) == (483, 690)
    assert (executed.adds, padded.adds) == (7 * 75, 10 * 75) == (525, 750)
    assert (padded.mults - executed.mults) / padded.mults == 0.3


def test_one_row_of_the_vowels_example() -> None:
    spec = RnnSpec(kind="lstm", input_size=12, hidden_size=64, num_layers=2, bidirectional=True)
    # Layer 0: 2 directions · 256 gates · (12 + 64) = 38,912; layer 1 reads both directions:
    # 2 · 256 · (128 + 64) = 98,304. Together 137,216 MACs.
    # Cells: 2 layers · 2 directions · 64 units: 3 mults, 5 adds and 5 activations each.
    # With two biases, the adds of a product and its biases are as many as its mults.
    row = formulas.forward_row(spec)
    assert row.macs == 38_912 + 98_304 == 137_216
    assert row.mults == 137_216 + 256 * 3 == 137_984
    assert row.adds == 137_216 + 256 * 5 == 138_496
    assert row.activations == 256 * 5 == 1_280


def test_one_row_of_gru_and_rnn() -> None:
    gru = formulas.forward_row(RnnSpec(kind="gru", input_size=2, hidden_size=3, bias=False))
    # 9 dot products with 2 inputs, 9 with 3 states; r·h and (h − n)·z: 2 mults a unit;
    # 3 gate sums, h − n and + n: 5 adds; 2 sigmoids, 1 tanh.
    assert gru == OpCount(matmul_mults=45, matmul_adds=27, gate_mults=6, gate_adds=15, activations=9)
    rnn = formulas.forward_row(RnnSpec(kind="rnn_relu", input_size=2, hidden_size=3))
    # 3 dot products with 2 inputs, 3 with 3 states, 6 biases; 1 gate sum and 1 relu a unit.
    assert rnn == OpCount(matmul_mults=15, matmul_adds=9, bias_adds=6, gate_adds=3, activations=3)


def test_a_projection_narrows_the_state() -> None:
    row = formulas.forward_row(RnnSpec(kind="lstm", input_size=2, hidden_size=3, proj_size=1, bias=False))
    # 12 dot products with 2 inputs, 12 with the 1 projected state, 1 of 3 terms for the projection.
    assert row.macs == 12 * 2 + 12 * 1 + 1 * 3
    assert row.matmul_adds == 12 * 1 + 12 * 0 + 1 * 2


def specs(kind: Kind) -> list[RnnSpec]:
    found = []
    for layers, both, bias, proj in itertools.product((1, 2, 3), (False, True), (False, True), (0, 2)):
        if kind == "lstm" or not proj:
            found.append(
                RnnSpec(
                    kind=kind,
                    input_size=3,
                    hidden_size=4,
                    num_layers=layers,
                    bidirectional=both,
                    bias=bias,
                    proj_size=proj,
                )
            )
    return found


def check_against_dispatch(spec: RnnSpec, lengths: tuple[int, ...], *, packed: bool, batch_first: bool) -> None:
    module = build_module(spec, batch_first=batch_first)
    make = packed_batch if packed else padded_batch
    batch = make(lengths, spec.input_size, batch_first=batch_first)
    counted = formulas.forward(spec, Tally.of(BatchShape.from_lengths(lengths, packed=packed)))
    with torch.no_grad(), dispatched() as seen:
        module(batch)
    assert same_operations(counted, seen.count), f"{counted}\n{seen.count}"
    with native_kernels(), FlopCounterMode(display=False) as flops:
        module(batch)
    assert counted.flops == flops.get_total_flops()


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("spec", [spec for kind in KINDS for spec in specs(kind)], ids=str)
def test_every_combination_against_dispatch(spec: RnnSpec, packed: bool, batch_first: bool) -> None:
    check_against_dispatch(spec, LENGTHS, packed=packed, batch_first=batch_first)


@st.composite
def any_spec(draw: st.DrawFn) -> RnnSpec:
    kind = draw(st.sampled_from(KINDS))
    hidden = draw(st.integers(1, 9))
    return RnnSpec(
        kind=kind,
        input_size=draw(st.integers(1, 9)),
        hidden_size=hidden,
        num_layers=draw(st.integers(1, 4)),
        bidirectional=draw(st.booleans()),
        bias=draw(st.booleans()),
        proj_size=draw(st.integers(0, hidden - 1)) if kind == "lstm" else 0,
    )


any_lengths = st.lists(st.integers(1, 12), min_size=1, max_size=8).map(tuple)


@given(spec=any_spec(), lengths=any_lengths, packed=st.booleans(), batch_first=st.booleans())
def test_drawn_sizes_against_dispatch(spec: RnnSpec, lengths: tuple[int, ...], packed: bool, batch_first: bool) -> None:
    check_against_dispatch(spec, lengths, packed=packed, batch_first=batch_first)


@given(spec=any_spec(), lengths=any_lengths, packed=st.booleans())
def test_drawn_sizes_against_the_flop_counter_on_the_meta_device(
    spec: RnnSpec, lengths: tuple[int, ...], packed: bool
) -> None:
    module = build_module(spec).to("meta")
    batch = packed_batch(lengths, spec.input_size) if packed else padded_batch(lengths, spec.input_size)
    with FlopCounterMode(display=False) as flops:
        module(on_meta(batch))
    counted = formulas.forward(spec, Tally.of(BatchShape.from_lengths(lengths, packed=packed)))
    assert counted.flops == flops.get_total_flops()
