"""What padding does to results, against hand-made cases and a run of each sequence alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import rnncost
from rnncost.errors import LengthsError, UnsupportedModuleError

LENGTHS = [8, 5, 2]


def differences(found: rnncost.reporting.contamination.Contamination) -> dict[tuple[str, int, str], int]:
    return {(each.what, each.layer, each.direction): each.sequences for each in found.differences}


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("batch_first", [False, True])
def test_one_direction_keeps_outputs_and_loses_final_states(kind: Any, batch_first: bool) -> None:
    found = rnncost.contamination(kind(4, 5, 2, batch_first=batch_first), LENGTHS)
    assert found.outputs_exact
    assert not found.states_exact
    seen = differences(found)
    assert seen["output", 1, "forward"] == 0
    assert seen["hidden", 0, "forward"] == seen["hidden", 1, "forward"] == 2
    assert "exact" in str(found)


def test_two_directions_lose_outputs_at_real_steps() -> None:
    found = rnncost.contamination(nn.GRU(4, 5, 2, bidirectional=True), LENGTHS)
    seen = differences(found)
    assert seen["output", 1, "reverse"] == 2
    # The layer above reads the reverse direction of the layer below.
    assert seen["output", 1, "forward"] == 2
    assert "differs by up to" in str(found)


def test_equal_lengths_are_exact() -> None:
    found = rnncost.contamination(nn.LSTM(4, 5, bidirectional=True), [4, 4])
    assert found.outputs_exact
    assert found.states_exact


def test_without_bias_zero_padding_leaves_the_reverse_direction_alone() -> None:
    found = rnncost.contamination(nn.GRU(4, 5, bias=False, bidirectional=True), LENGTHS)
    seen = differences(found)
    assert (seen["output", 0, "reverse"], seen["hidden", 0, "reverse"]) == (0, 0)
    assert seen["hidden", 0, "forward"] == 2


def test_the_worked_case_of_one_unit() -> None:
    lstm = nn.LSTM(1, 1, bidirectional=True)
    for weight in lstm.parameters():
        nn.init.constant_(weight, 0.5)
    found = rnncost.contamination(lstm, [3, 1])
    reverse = next(each for each in found.differences if (each.what, each.direction) == ("output", "reverse"))
    assert reverse.sequences == 1
    assert reverse.largest > 0.1


@pytest.mark.parametrize("training", [False, True])
def test_nothing_is_disturbed(training: bool) -> None:
    module = nn.LSTM(4, 5, 2, dropout=0.9, bidirectional=True).train(training)
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    state = torch.random.get_rng_state()
    first, second = (rnncost.contamination(module, LENGTHS) for _ in range(2))
    assert first == second
    assert torch.equal(torch.random.get_rng_state(), state)
    assert module.training is training
    assert all(torch.equal(weights[name], value) for name, value in module.state_dict().items())
    assert all(weight.grad is None for weight in module.parameters())


def test_double_precision_is_held_to_a_finer_tolerance() -> None:
    found = rnncost.contamination(nn.GRU(4, 5).double(), LENGTHS)
    assert found.tolerance < 1e-13
    assert found.outputs_exact


@pytest.mark.parametrize("module", [nn.Linear(1, 1), nn.GRUCell(1, 1)])
def test_other_modules_are_refused(module: nn.Module) -> None:
    with pytest.raises(UnsupportedModuleError, match=r"is not an nn\.RNN"):
        rnncost.contamination(module, LENGTHS)
    with pytest.raises(LengthsError):
        rnncost.contamination(nn.GRU(1, 1), [0])
