"""Padded calls whose true lengths are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import rnncost
from rnncost.counting import BatchShape, Tally
from rnncost.errors import LengthsError
from rnncost.reporting.renderers.text import TextRenderer
from rnncost.tracking.lengths import trailing_zero_lengths
from tests.builders import packed_batch, padded_batch
from tests.tracking.models import Holder

LENGTHS = [5, 2, 4, 1]


@pytest.mark.parametrize(
    "lengths",
    [
        LENGTHS,
        tuple(LENGTHS),
        np.array(LENGTHS),
        np.array(LENGTHS, dtype=np.uint16),
        torch.tensor(LENGTHS),
        torch.tensor(LENGTHS, dtype=torch.uint8),
    ],
)
@pytest.mark.parametrize("batch_first", [False, True])
def test_given_lengths_make_the_waste_known(lengths: Any, batch_first: bool) -> None:
    module = nn.GRU(3, 4, batch_first=batch_first)
    with rnncost.CostTracker(module, lengths=lengths) as tracker:
        module(padded_batch(LENGTHS, 3, batch_first=batch_first))
    layer = tracker.report.layers[0]
    assert layer.tally == Tally.of(BatchShape.from_lengths(LENGTHS, packed=False))
    assert layer.wasted_fraction == 8 / 20
    assert layer.packed == rnncost.analyze(nn.GRU(3, 4), packed_batch(LENGTHS, 3)).executed
    text = " ".join(TextRenderer().render(tracker.report).split())
    assert "packing would have saved" in text
    assert "40.0 % of those executed" in text


def test_lengths_are_set_batch_by_batch_and_taken_back() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module) as tracker:
        for lengths in ([5, 2], [3], [7, 7, 1]):
            tracker.set_lengths(lengths)
            module(padded_batch(lengths, 3))
        assert tracker.report.layers[0].tally.packed_rows == 7 + 3 + 15
        tracker.set_lengths(None)
        module(padded_batch([2], 3))
    assert tracker.report.layers[0].tally.packed_rows is None


def test_sub_batches_add_up() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module) as tracker:
        for lengths in ([5, 4], [2, 1]):
            tracker.set_lengths(lengths)
            module(padded_batch(lengths, 3))
    tally = tracker.report.layers[0].tally
    assert (tally.rows, tally.packed_rows, tally.padded_rows) == (14, 12, 14)


def test_backward_of_known_lengths_equals_the_packed_backward() -> None:
    reports = []
    for packed in (False, True):
        module = nn.LSTM(3, 4, 2, bidirectional=True)
        with rnncost.CostTracker(module, backward=True, lengths=None if packed else LENGTHS) as tracker:
            batch: Any = (packed_batch if packed else padded_batch)(LENGTHS, 3)
            output, _ = module(batch)
            (output.data if packed else output).sum().backward()
        reports.append(tracker.report)
    padded, packed_report = reports
    assert padded.backward.packed is not None
    assert padded.backward.packed.macs == packed_report.backward.executed.macs
    assert packed_report.backward.padded.macs == padded.backward.executed.macs


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([5, 2], "2 lengths were given, but the batch of GRU has 4 sequences of 5 steps"),
        ([6, 2, 4, 1], "a length of 6 was given, but the batch of GRU has 4 sequences of 5 steps"),
    ],
)
def test_lengths_that_do_not_fit_say_both(lengths: list[int], message: str) -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, lengths=lengths) as tracker, pytest.raises(LengthsError, match=message):
        module(padded_batch(LENGTHS, 3))
    assert tracker.report.layers[0].tally.calls == 0


@pytest.mark.parametrize("lengths", [[0, 1], [1.5], "5", []])
def test_lengths_that_no_batch_has(lengths: Any) -> None:
    with pytest.raises(LengthsError):
        rnncost.CostTracker(nn.GRU(3, 4), lengths=lengths)


def test_a_packed_batch_needs_no_lengths() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, lengths=[1]) as tracker:
        module(packed_batch(LENGTHS, 3))
    assert tracker.report.layers[0].tally.packed_rows == 12


def test_padded_length_of_packs_that_were_padded_further() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, padded_length=10) as tracker:
        module(packed_batch(LENGTHS, 3))
    tally = tracker.report.layers[0].tally
    assert (tally.rows, tally.padded_rows) == (12, 40)
    assert tracker.report.saved_fraction == 28 / 40
    with (
        rnncost.CostTracker(module, padded_length=4),
        pytest.raises(LengthsError, match=r"padded_length is 4.* 5 steps"),
    ):
        module(packed_batch(LENGTHS, 3))
    for bad in (0, -1, 2.5):
        with pytest.raises(LengthsError):
            rnncost.CostTracker(module, padded_length=bad)  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.booleans())
def test_trailing_zeros_tell_the_lengths(lengths: list[int], batch_first: bool) -> None:
    assert trailing_zero_lengths(padded_batch(lengths, 2, batch_first=batch_first), batch_first=batch_first) == tuple(
        lengths
    )


def test_zeros_within_a_sequence_are_real() -> None:
    x = torch.zeros(1, 5, 2)
    x[0, 3, 1] = -1
    assert trailing_zero_lengths(x, batch_first=True) == (4,)
    assert trailing_zero_lengths(torch.zeros(2, 3, 1), batch_first=True) == (1, 1)


def test_inferred_lengths_hold_for_the_layers_above() -> None:
    model = nn.Sequential(Holder(nn.GRU(3, 4, batch_first=True)), Holder(nn.GRU(4, 4, batch_first=True)))
    with rnncost.CostTracker(model, infer_lengths=True) as tracker:
        model(padded_batch(LENGTHS, 3, batch_first=True))
    assert [layer.tally.packed_rows for layer in tracker.report.layers] == [12, 12]


def test_input_without_trailing_zeros_stays_unknown() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, infer_lengths=True) as tracker:
        module(torch.ones(5, 2, 3))
    assert tracker.report.layers[0].packed is None


def test_a_full_batch_after_a_padded_one_is_full() -> None:
    model = nn.Sequential(Holder(nn.GRU(3, 4, batch_first=True)), Holder(nn.GRU(4, 4, batch_first=True)))
    with rnncost.CostTracker(model, infer_lengths=True) as tracker:
        model(padded_batch(LENGTHS, 3, batch_first=True))
        model(torch.ones(4, 5, 3))
        model(torch.ones(0, 5, 3))
    assert [layer.tally.packed_rows for layer in tracker.report.layers] == [32, 32]


def test_layers_of_different_batches_get_lengths_of_their_own() -> None:
    model = nn.ModuleDict({"words": nn.GRU(3, 4), "chars": nn.GRU(3, 4)})
    with rnncost.CostTracker(model) as tracker:
        tracker.set_lengths({"words": [5, 2], "chars": [7, 7, 1]})
        model["words"](padded_batch([5, 2], 3))
        model["chars"](padded_batch([7, 7, 1], 3))
    assert [layer.tally.packed_rows for layer in tracker.report.layers] == [7, 15]


def test_lengths_that_do_not_fit_a_subclass_are_said_too() -> None:
    class Own(nn.GRU):
        def forward(self, x: torch.Tensor) -> Any:  # type: ignore[override]
            return super().forward(x)

    module = Own(3, 4)
    with rnncost.CostTracker(module, lengths=[5, 4, 3]), pytest.raises(LengthsError, match="3 lengths were given"):
        module(padded_batch(LENGTHS, 3))
