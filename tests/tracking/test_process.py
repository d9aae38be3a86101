"""CostTracker(): every recurrent module of the process."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import rnncost
from tests.builders import packed_batch
from tests.tracking.models import Failing, Holder, Tagger


def test_modules_are_named_as_their_outermost_caller_names_them() -> None:
    model = Holder(nn.GRU(3, 4))
    outer = nn.Sequential(nn.Identity(), model)
    with rnncost.CostTracker() as tracker:
        outer(torch.zeros(5, 2, 3))
        outer(torch.zeros(5, 2, 3))
    assert [(layer.name, layer.tally.calls) for layer in tracker.report.layers] == [("1.rnn", 2)]


def test_modules_of_several_models_are_kept_apart() -> None:
    with rnncost.CostTracker() as tracker:
        for _ in range(2):
            Holder(nn.GRU(3, 4))(torch.zeros(5, 2, 3))
        nn.LSTM(3, 3)(torch.zeros(5, 2, 3))
        nn.Linear(3, 3)(torch.zeros(5, 3))
    assert [layer.name for layer in tracker.report.layers] == ["rnn", "rnn #2", "LSTM"]


def test_process_and_model_trackers_agree() -> None:
    model, x = Tagger(), torch.zeros(3, 6, 3)
    with rnncost.CostTracker(model) as bound, rnncost.CostTracker() as everywhere:
        model(x, [6, 2, 3])
        model(x=x, lengths=[6, 1, 3])
    assert bound.report == everywhere.report


def test_a_module_that_died_stays_recorded_and_its_successor_is_another() -> None:
    with rnncost.CostTracker() as tracker:
        for _ in range(50):
            nn.RNN(1, 1)(input=torch.zeros(2, 1, 1))
    assert len(tracker.report.layers) == 50
    assert {layer.tally.calls for layer in tracker.report.layers} == {1}


def test_replicas_count_as_their_original() -> None:
    class Replicated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(2, 3)

        def forward(self, x: Tensor) -> Tensor:
            replica = self.rnn._replicate_for_data_parallel()  # type: ignore[no-untyped-call]
            replica._flat_weights = self.rnn._flat_weights
            output: Tensor = replica(x)[0]
            return output

    model = Replicated()
    with rnncost.CostTracker() as everywhere, rnncost.CostTracker(model) as bound:
        model(torch.zeros(5, 2, 2))
        model(torch.zeros(5, 2, 2))
    assert [layer.tally.calls for layer in everywhere.report.layers] == [2]
    assert [layer.tally.calls for layer in bound.report.layers] == [2]


def test_the_exception_of_a_forward_comes_out() -> None:
    tracker = rnncost.CostTracker()
    try:
        with tracker:
            Failing()(torch.zeros(4, 2, 3))
    except KeyError:
        pass
    assert tracker.report.layers[0].tally.rows == 8


def test_packed_batches_are_seen_too() -> None:
    with rnncost.CostTracker() as tracker:
        nn.LSTM(2, 3)(packed_batch([5, 2], 2))
    assert tracker.report.executed.mults == 483
