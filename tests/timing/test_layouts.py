"""Exactness first: a layout's results are those of a packed run, for every kind of layer."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rnncost.counting.spec import GATES
from rnncost.errors import LengthsError
from rnncost.timing.batch import SequenceBatch
from rnncost.timing.group_cost import measure_group_cost
from rnncost.timing.layouts import Grouped, Packed, equal_groups, make_layout
from rnncost.timing.sampling import Sampled
from rnncost.timing.split import GroupTime, best_split, fit_group_time, measured_grid, with_split_cost
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


def test_two_lengths_are_measured_for_each_of_a_few_sizes() -> None:
    assert measured_grid([40, 30, 20, 10, 9, 8]) == tuple((size, steps) for size in (1, 2, 4, 6) for steps in (9, 40))
    assert measured_grid([40, 40, 40]) == tuple((size, steps) for size in (1, 2, 3) for steps in (10, 40))
    assert measured_grid([1]) == ((1, 1),)


def test_the_model_is_fitted_to_what_was_measured() -> None:
    fitted = fit_group_time({cell: 3 + cell[0] * 0.5 * cell[1] for cell in measured_grid([40, 30, 20, 10, 9, 8])})
    assert fitted.sizes == (1, 2, 4, 6)
    assert fitted.constant_s == pytest.approx((3, 3, 3, 3))
    assert fitted.step_s == pytest.approx((0.5, 1, 2, 3))
    one_step = fit_group_time({(1, 1): 3.5})
    assert one_step.predict([1], [1]) == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("beyond", "split_s", "batch_s"),
    [
        (lambda count: 0.5 + 0.25 * count, 0.25, 0.5),  # a part for each group, and one for the batch
        (lambda count: 1 - 0.01 * count, 0, 0.96),  # noise alone makes many groups cheaper: all is the batch's
        (lambda count: 0.2 * count - 0.1, 0.18, 0),  # nor does a batch without groups give time back
        (lambda count: -0.5, 0, 0),
    ],
)
def test_what_splitting_itself_costs(beyond: Callable[[int], float], split_s: float, batch_s: float) -> None:
    lengths = list(range(12, 0, -1))
    cuts = [equal_groups(12, count) for count in (2, 4, 6)]
    alone = msgspec.structs.replace(TIME, split_s=0.0)
    measured = [(groups, alone.predict(lengths, groups) + beyond(len(groups))) for groups in cuts]
    found = with_split_cost(alone, lengths, measured)
    assert (found.split_s, found.batch_s) == pytest.approx((split_s, batch_s), abs=0.01)
    if beyond(2) > 0 and split_s:
        assert found.predict(lengths, cuts[1]) == pytest.approx(measured[1][1], rel=0.01)


def test_the_cost_of_groups_is_what_the_rounds_say() -> None:
    # Every group takes 1 s and 0.5 s a step for each sequence, a cut 0.25 s a group more.
    rnn = torch.nn.GRU(2, 3)
    batch = SequenceBatch(rnn, [8, 6, 5, 3])

    def sampled(runs: Mapping[str, object], base: str) -> Sampled:
        assert base == "padded"
        seconds = {"padded": 4.0}
        for name in runs:
            if name.startswith("group"):
                sequences, steps = map(int, re.findall("[0-9]+", name))
                seconds[name] = 1 + 0.5 * sequences * steps
            elif name.startswith("cut"):
                groups = equal_groups(4, int(name.removeprefix("cut ")))
                starts = [sum(groups[:number]) for number in range(len(groups))]
                each = zip(groups, starts, strict=True)
                seconds[name] = sum(1.25 + 0.5 * size * [8, 6, 5, 3][start] for size, start in each)
        return Sampled(seconds={name: [spent] for name, spent in seconds.items()}, complete=True)

    cost = measure_group_cost(rnn, batch, sampled)
    assert cost.padded_s == 4.0
    assert cost.time.predict([8, 6, 5, 3], [1, 3]) == pytest.approx(2 * 1.25 + 0.5 * (8 + 18))
    assert cost.padded_seconds(4, 8) == 4.0
    assert cost.padded_seconds(2, 8) == pytest.approx(4.0 * (1.25 + 8) / (1.25 + 16))
