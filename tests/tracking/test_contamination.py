"""What padding does to results, against hand-made cases and a run of each sequence alone."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import nn

import rnncost
from rnncost.errors import LengthsError, UnsupportedModuleError

contamination_module: Any = importlib.import_module("rnncost.tracking.contamination")
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


def alone(module: Any, batch: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
    """The outputs of each sequence run by itself."""
    return [module(batch[:length, row : row + 1])[0] for row, length in enumerate(lengths)]


@pytest.mark.parametrize("bidirectional", [False, True])
def test_against_a_run_of_each_sequence_alone(bidirectional: bool) -> None:
    module = nn.GRU(4, 5, 2, bidirectional=bidirectional)
    batch = contamination_module._random_batch(module, module_spec(module), tuple(LENGTHS), 0)
    with torch.no_grad():
        padded, true = module(batch)[0], alone(module, batch, LENGTHS)
    errors = [(padded[:length, row] - true[row][:, 0]).abs().amax(0) for row, length in enumerate(LENGTHS)]
    found = rnncost.contamination(module, LENGTHS)
    for index, direction in enumerate(["forward", "reverse"][: 1 + bidirectional]):
        parts = [float(error[5 * index : 5 * index + 5].max()) for error in errors]
        seen = next(each for each in found.differences if (each.what, each.direction) == ("output", direction))
        assert seen.largest == pytest.approx(max(parts), abs=1e-6)
        assert seen.sequences == sum(part > 1e-5 for part in parts)


def module_spec(module: nn.GRU) -> rnncost.RnnSpec:
    return rnncost.estimate(module, [1]).layers[0].spec  # type: ignore[return-value]


def test_the_worked_case_of_one_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    # LSTM(1, 1, bi), all weights 0.5, the sequence [2.0] padded with two zeros: the reverse output
    # at its one step is 0.8656 where 0.6083 is true, and the forward final state 0.7474.
    lstm = nn.LSTM(1, 1, bidirectional=True)
    for weight in lstm.parameters():
        weight.data.fill_(0.5)
    batch = torch.zeros(3, 2, 1)
    batch[0, :] = 2.0
    monkeypatch.setattr(contamination_module, "_random_batch", lambda *_: batch)
    found = {(each.what, each.direction): each for each in rnncost.contamination(lstm, [1, 3]).differences}
    assert found["output", "reverse"].largest == pytest.approx(0.8656 - 0.6083, abs=1e-4)
    assert found["hidden", "forward"].largest == pytest.approx(0.7474 - 0.6083, abs=1e-4)
    assert (found["output", "reverse"].sequences, found["output", "forward"].sequences) == (1, 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_does_not_hide_what_padding_does(dtype: torch.dtype) -> None:
    module = nn.GRU(4, 5, bidirectional=True).to(dtype)
    found = rnncost.contamination(module, LENGTHS)
    assert not found.outputs_exact
    assert found.tolerance < 1e-4
    assert module.weight_hh_l0.dtype is dtype


def test_what_cannot_be_compared_is_said() -> None:
    module = nn.GRU(4, 5)
    with torch.no_grad():
        next(module.parameters()).fill_(float("nan"))
    with pytest.raises(UnsupportedModuleError, match="not finite"):
        rnncost.contamination(module, LENGTHS)
    with pytest.raises(UnsupportedModuleError, match="meta device"):
        rnncost.contamination(nn.GRU(4, 5, device="meta"), LENGTHS)


def _fail(*_: Any) -> None:
    raise AssertionError("the hook ran")


def test_hooks_of_others_do_not_see_it() -> None:
    module = nn.GRU(4, 5)
    module.register_forward_hook(_fail)
    with rnncost.CostTracker(module) as tracker:
        rnncost.contamination(module, LENGTHS)
    assert tracker.report.layers[0].tally.calls == 0
    assert len(module._forward_hooks) == 1


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
