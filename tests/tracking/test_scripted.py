"""Scripted layers fire no hook: they are named, and totals are partial."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

import rnncost
from rnncost.errors import UncountedModuleWarning
from tests.tracking.models import Holder

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]  # type: ignore[no-any-return]


def scripted() -> nn.Module:
    module: nn.Module = torch.jit.script(Scripted())
    return module


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = scripted()
        self.plain = nn.GRU(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.plain(self.inner(x))[0]
        return output


def test_a_scripted_layer_is_named_warned_about_and_makes_totals_partial() -> None:
    model = Both()
    with pytest.warns(UncountedModuleWarning, match=r"inner\.rnn \(LSTM\) is not counted.*partial") as caught:
        report = rnncost.analyze(model, torch.zeros(4, 1, 2))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [(found.name, found.type_name) for found in report.uncounted] == [("inner.rnn", "LSTM")]
    assert report.partial
    assert "partial" in str(report)
    assert [layer.name for layer in report.layers] == ["plain"]


def test_a_scripted_root() -> None:
    with pytest.warns(UncountedModuleWarning):
        report = rnncost.analyze(scripted(), torch.zeros(4, 1, 2))
    assert [found.name for found in report.uncounted] == ["rnn"]


def test_a_frozen_module_has_lost_its_layers_but_not_its_kernels() -> None:
    model = Holder(torch.jit.freeze(scripted().eval()))
    with pytest.warns(UncountedModuleWarning, match="rnn "):
        report = rnncost.analyze(model, torch.zeros(4, 1, 2))
    assert len(report.uncounted) == 1


def test_a_scripted_module_without_recurrent_layers_is_no_loss() -> None:
    report = rnncost.analyze(nn.Sequential(torch.jit.script(nn.Linear(2, 2))), torch.zeros(1, 2))
    assert not report.partial


def test_the_whole_process_names_them_when_they_are_called() -> None:
    model = Both()
    with pytest.warns(UncountedModuleWarning, match="rnn"), rnncost.CostTracker() as tracker:
        model(torch.zeros(4, 1, 2))
        model(torch.zeros(4, 1, 2))
    assert [found.type_name for found in tracker.report.uncounted] == ["LSTM"]


def test_a_warning_turned_into_an_error_leaves_no_hook() -> None:
    model = Both()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncountedModuleWarning)
        with pytest.raises(UncountedModuleWarning), rnncost.CostTracker(model):
            pass
    assert not model.plain._forward_hooks
