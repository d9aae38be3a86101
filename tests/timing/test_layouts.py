"""Exactness first: a layout's results are those of a packed run, for every kind of layer."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rnncost.counting.spec import GATES
from rnncost.errors import LengthsError
from rnncost.timing.batch import SequenceBatch
from rnncost.timing.layouts import Grouped, Packed, equal_groups, make_layout
from rnncost.timing.split import GroupTime, best_split, fit_group_time, measured_sizes
from tests.builders import build_module
from tests.counting.test_formulas import specs

LENGTHS = [5, 2, 7, 7, 1, 4]
EXACT = ["packed+packing", "bucketed(1)", "bucketed(2)", "bucketed(6)", "loop"]


def truth(rnn: Any, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
    packed = Packed(rnn, batch)
    data, hidden = packed.run()
    return packed.unpacked(data), hidden


def real(output: Tensor, batch: SequenceBatch) -> Tensor:
    steps = torch.arange(output.shape[0]).unsqueeze(1)
    return output * (steps < batch.lengths).unsqueeze(2)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("spec", [spec for kind in GATES for spec in specs(kind)], ids=str)
def test_exact_layouts_equal_a_packed_run(spec: Any, name: str, batch_first: bool) -> None:
    rnn = build_module(spec, batch_first=batch_first).double()
    batch = SequenceBatch(rnn, LENGTHS)
    layout = make_layout(name, rnn, batch)
    assert layout.exact
    with torch.no_grad():
        output, hidden = layout.run()
        true_output, true_hidden = truth(rnn, batch)
    assert torch.allclose(real(output, batch), true_output, atol=1e-12, rtol=0)
    assert torch.allclose(hidden, true_hidden, atol=1e-12, rtol=0)


@pytest.mark.parametrize("spec", [spec for kind in GATES for spec in specs(kind) if spec.num_layers < 3], ids=str)
def test_gradients_of_exact_layouts_equal_those_of_a_packed_run(spec: Any) -> None:
    rnn = build_module(spec).double()
    batch = SequenceBatch(rnn, LENGTHS)
    gradients = []
    for name in ("packed+packing", "bucketed(3)"):
        rnn.zero_grad()
        output, hidden = make_layout(name, rnn, batch).run()
        (real(output, batch).sum() + hidden.sum()).backward()
        gradients.append([weight.grad for weight in rnn.parameters()])
    assert all(torch.allclose(one, other, atol=1e-11) for one, other in zip(*gradients, strict=True))


def test_padded_says_that_its_results_differ() -> None:
    rnn = build_module(next(spec for spec in specs("gru") if spec.bidirectional and spec.bias)).double()
    batch = SequenceBatch(rnn, LENGTHS)
    for name in ("padded", "mask"):
        layout = make_layout(name, rnn, batch)
        assert not layout.exact
        with torch.no_grad():
            output, _ = layout.run()
            assert not torch.allclose(real(output, batch), truth(rnn, batch)[0])
    assert make_layout("padded", rnn, SequenceBatch(rnn, [3, 3])).exact


def test_masking_zeroes_the_padding() -> None:
    rnn = build_module(next(spec for spec in specs("rnn_tanh")))
    batch = SequenceBatch(rnn, LENGTHS)
    output, _ = make_layout("mask", rnn, batch).run()
    assert torch.equal(output, real(output, batch))


@pytest.mark.parametrize(
    ("sequences", "groups", "sizes"), [(6, 2, [3, 3]), (7, 3, [3, 2, 2]), (4, 4, [1] * 4), (3, 1, [3])]
)
def test_equal_groups(sequences: int, groups: int, sizes: list[int]) -> None:
    assert equal_groups(sequences, groups) == sizes


@pytest.mark.parametrize("name", ["bucketed(0)", "bucketed(7)", "bucketed(x)", "sorted", ""])
def test_layouts_that_there_are_not(name: str) -> None:
    rnn = build_module(specs("gru")[0])
    with pytest.raises(LengthsError):
        make_layout(name, rnn, SequenceBatch(rnn, LENGTHS))
    with pytest.raises(LengthsError, match="do not make a batch"):
        Grouped(rnn, SequenceBatch(rnn, LENGTHS), [2, 3], name="x")


TIME = GroupTime(sizes=(1, 4, 8), constant_s=(1.0, 1.5, 3.0), step_s=(0.5, 0.75, 2.0), split_s=0.25)


def test_the_cost_model_by_hand() -> None:
    # b = 1: 1 + 0.5·t + 0.25; b = 6 lies half way between 4 and 8: 2.25 + 1.375·t + 0.25.
    seconds = TIME.seconds(np.array([1, 6]), np.array([10, 2]))
    assert seconds.tolist() == [6.25, 5.25]
    assert TIME.predict([10, 2, 2, 2, 2, 2, 2], [1, 6]) == 11.5


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
    st.floats(0, 5),
    st.floats(0.01, 3),
    st.floats(0.01, 3),
    st.floats(0, 2),
)
def test_no_other_cut_is_predicted_to_be_faster(
    lengths: list[int], constant: float, step: float, step_of_eight: float, split: float
) -> None:
    lengths.sort(reverse=True)
    time = GroupTime(
        sizes=(1, 8), constant_s=(constant, 2 * constant), step_s=(step, step + step_of_eight), split_s=split
    )
    groups, predicted = best_split(lengths, time)
    assert sum(groups) == len(lengths)
    assert predicted == pytest.approx(time.predict(lengths, groups))
    count = len(lengths)
    cuts = itertools.chain.from_iterable(itertools.combinations(range(1, count), size) for size in range(count))
    for cut in cuts:
        ends = [0, *cut, count]
        other = [end - start for start, end in itertools.pairwise(ends)]
        assert predicted <= time.predict(lengths, other) + 1e-9


def test_the_model_is_fitted_from_two_lengths_a_size() -> None:
    asked = []

    def measure(sequences: int, steps: int) -> float:
        asked.append((sequences, steps))
        return 3 + sequences * 0.5 * steps

    fitted = fit_group_time(6, 40, measure, split_s=0.0)
    assert measured_sizes(6) == fitted.sizes == (1, 2, 4, 6)
    assert fitted.constant_s == pytest.approx((3, 3, 3, 3))
    assert fitted.step_s == pytest.approx((0.5, 1, 2, 3))
    assert {steps for _, steps in asked} == {10, 40}
    one_step = fit_group_time(1, 1, measure, split_s=0.0)
    assert one_step.predict([1], [1]) == pytest.approx(3.5)
