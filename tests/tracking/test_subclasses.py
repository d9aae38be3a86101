"""Subclasses with a forward of their own are counted by the kernels inside, or named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import rnncost
from rnncost.counting import OpCount
from rnncost.errors import UncountedModuleWarning
from tests.builders import packed_batch, padded_batch
from tests.tracking.reading import only, rows

LENGTHS = (5, 4, 4, 1)


class Packing(nn.LSTM):
    """Takes a padded tensor and packs it inside."""

    def forward(self, x: Tensor, lengths: list[int]) -> Any:  # type: ignore[override]
        return super().forward(pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False))


class Embedding(nn.GRU):
    def __init__(self) -> None:
        super().__init__(3, 4)
        self.table = nn.Embedding(7, 3)

    def forward(self, ids: Tensor) -> Any:  # type: ignore[override]
        return super().forward(self.table(ids))


class OwnArithmetic(nn.GRU):
    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        return x * 2, x


class WithChild(nn.GRU):
    """A subclass that runs its own kernel, and a child that is watched itself."""

    def __init__(self) -> None:
        super().__init__(3, 4)
        self.child = nn.LSTM(3, 3)

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        return super().forward(self.child(x)[0])


@pytest.mark.parametrize("whole_process", [False, True])
def test_a_subclass_is_counted_by_its_kernels(whole_process: bool) -> None:
    model, x = Packing(3, 4), padded_batch(LENGTHS, 3)
    with rnncost.CostTracker(None if whole_process else model, backward=True) as tracker:
        output, _ = model(x=x, lengths=list(LENGTHS))
        output.data.sum().backward()
    layer = only(tracker.report)
    assert rows(layer) == (14, 20, 14)
    assert layer.source == "subclass"
    assert layer.backward.executed.macs > 0
    plain = only(rnncost.analyze(nn.LSTM(3, 4), packed_batch(LENGTHS, 3)))
    assert (layer.executed - layer.backward.executed, layer.spec) == (plain.executed, plain.spec)


def test_a_subclass_that_embeds() -> None:
    assert rows(only(rnncost.analyze(Embedding(), torch.zeros(5, 4, dtype=torch.int64)))) == (20, 20, None)


@pytest.mark.parametrize("verify", [False, True])
def test_a_subclass_and_its_child_are_each_counted_once(verify: bool) -> None:
    model = WithChild()
    with rnncost.CostTracker(model, verify=verify, backward=True) as tracker:
        model(padded_batch(LENGTHS, 3))[0].sum().backward()
    report = tracker.report
    assert [(layer.name, str(layer.spec), layer.tally.calls) for layer in report.layers] == [
        ("WithChild", "GRU 3x4", 1),
        ("child", "LSTM 3x3", 1),
    ]
    assert [sum(call.backward.calls for call in layer.backward_calls) for layer in report.layers] == [1, 1]
    if verify:
        assert report.verification is not None
        assert report.verification.agrees
        assert report.verification.calls == 2


def test_a_subclass_that_runs_no_kernel_is_named() -> None:
    model = OwnArithmetic(3, 4)
    with pytest.warns(UncountedModuleWarning, match=r"OwnArithmetic .* runs no kernel .*register_reader"):
        report = rnncost.analyze(model, torch.zeros(5, 2, 3))
    assert report.partial
    assert report.executed == OpCount()


def test_a_subclass_that_fails_leaves_nothing() -> None:
    model = Packing(3, 4)
    with rnncost.CostTracker(model) as tracker:
        with pytest.raises(Exception, match="Length"):
            model(padded_batch(LENGTHS, 3), [0, 0, 0, 0])
        with pytest.raises(KeyboardInterrupt):
            raise KeyboardInterrupt
        model(padded_batch(LENGTHS, 3), list(LENGTHS))
    assert rows(only(tracker.report)) == (14, 20, 14)


class Interrupted(nn.GRU):
    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        super().forward(x)
        raise KeyboardInterrupt


def test_an_interrupt_inside_a_subclass_leaves_no_mode() -> None:
    # Torch calls no hook then; the tracker closes what is open. The fixture looks at the modes.
    with pytest.raises(KeyboardInterrupt), rnncost.CostTracker(Interrupted(3, 4)) as tracker:
        tracker._watch._model(torch.zeros(5, 2, 3))  # type: ignore[attr-defined]


class Peephole(nn.RNNBase):
    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.mode = "PEEPHOLE"

    def forward(self, x: Tensor) -> Any:
        return x, x


@pytest.mark.parametrize("whole_process", [False, True])
def test_a_mode_that_torch_does_not_have_is_named(whole_process: bool) -> None:
    model = Peephole()
    with pytest.warns(UncountedModuleWarning, match="Peephole"):  # noqa: SIM117
        with rnncost.CostTracker(None if whole_process else model) as tracker:
            model(torch.zeros(1))
    assert tracker.report.partial


def test_a_layer_that_came_later_is_named() -> None:
    model = nn.Sequential(nn.Identity())
    with pytest.warns(UncountedModuleWarning, match="after the tracker was entered"):  # noqa: SIM117
        with rnncost.CostTracker(model) as tracker:
            model.append(nn.GRU(3, 4))
            model(torch.zeros(5, 2, 3))
    assert tracker.report.partial


def test_a_module_that_returns_nothing_is_counted_all_the_same() -> None:
    class Silent(nn.GRU):
        def forward(self, x: Tensor) -> None:  # type: ignore[override]
            super().forward(x)

    class SilentArithmetic(nn.GRU):
        def forward(self, x: Tensor) -> None:  # type: ignore[override]
            self.kept = x * 2

    assert rows(only(rnncost.analyze(Silent(3, 4), torch.zeros(5, 2, 3))))[0] == 10
    with pytest.warns(UncountedModuleWarning, match="runs no kernel"):
        assert rnncost.analyze(SilentArithmetic(3, 4), torch.zeros(5, 2, 3)).partial
