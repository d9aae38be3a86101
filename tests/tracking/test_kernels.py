"""The second eye: kernels that run outside any hook are found, and counts are verified."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn
from torch.overrides import _pop_mode
from torch.utils.flop_counter import FlopCounterMode

import rnncost
from rnncost.counting import OpCount
from tests.builders import packed_batch, padded_batch
from tests.oracle import dispatched, native_kernels, same_operations
from tests.tracking.models import Tagger

LENGTHS = (5, 4, 4, 1)


class Hidden(nn.Module):
    """Recurrent work in every way that fires no hook, beside one that does."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.GRU(3, 3)
        self.direct = nn.LSTM(3, 3, batch_first=True)
        self.kept_apart = [nn.RNN(3, 3)]
        self.cell = nn.GRUCell(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x, _ = self.seen(x)
        x, _ = self.direct.forward(x)
        x, _ = self.kept_apart[0](x)
        weights = list(self.cell.parameters())
        state = torch.gru_cell(x[0], x[1], *weights)
        weights = [*self.direct.parameters()]
        zeros = x.new_zeros(1, x.shape[1], 3)
        y, _, _ = torch.lstm(x, (zeros, zeros), tuple(weights), True, 1, 0.0, False, False, False)
        return y + state


def test_recurrent_work_outside_any_hook_is_found() -> None:
    model, x = Hidden(), padded_batch(LENGTHS, 3)
    with rnncost.CostTracker(model, verify=True) as tracker:
        model(x)
    with native_kernels(), FlopCounterMode(display=False) as flops:
        model(x)
    report = tracker.report
    assert report.executed.flops == flops.get_total_flops()
    assert [(layer.name, layer.source, layer.tally.calls) for layer in report.layers] == [
        ("seen", "module", 1),
        ("direct", "module", 0),
        ("cell", "module", 0),
        ("(outside any module) lstm", "kernel", 2),
        ("(outside any module) rnn_tanh", "kernel", 1),
        ("(outside any module) gru_cell", "kernel", 1),
    ]
    verification = report.verification
    assert verification is not None
    assert verification.agrees
    assert verification.kernel_macs == verification.counted_macs == report.executed.macs
    proof = verification.describe(partial=False, calls=5)
    assert proof == (
        "Verified on 5 kernel calls: counted MACs equal the MACs of every recurrent kernel that ran "
        f"({report.executed.macs:,})."
    )
    assert "of every recurrent kernel that was seen" in verification.describe(partial=True, calls=5)
    assert "5 of 9 kernel calls" in verification.describe(partial=False, calls=9)
    assert "on 1 kernel call:" in msgspec.structs.replace(verification, calls=1).describe(partial=False, calls=1)


def test_without_the_eye_that_work_is_missed() -> None:
    model = Hidden()
    report = rnncost.analyze(model, padded_batch(LENGTHS, 3))
    assert sum(layer.tally.calls for layer in report.layers) == 1


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_every_option_is_read_off_the_kernel(kind: Any, packed: bool, batch_first: bool) -> None:
    module = kind(3, 4, 2, bidirectional=True, bias=packed, batch_first=batch_first, dropout=0.5)
    batch = (packed_batch if packed else padded_batch)(LENGTHS, 3, batch_first=batch_first)
    with rnncost.CostTracker(module) as hooked:
        module(batch)
    with rnncost.CostTracker(nn.Identity(), verify=True) as eye:
        module(batch)
    ours, seen = hooked.report.layers[0], eye.report.layers[0]
    assert (seen.spec, seen.calls) == (ours.spec, ours.calls)


@pytest.mark.parametrize("packed", [False, True])
def test_the_backward_of_a_kernel_outside_any_module(packed: bool) -> None:
    module = nn.LSTM(3, 4, proj_size=2)
    batch: Any = (packed_batch if packed else padded_batch)(LENGTHS, 3)
    with rnncost.CostTracker(nn.Identity(), backward=True, verify=True) as tracker, dispatched() as ops:
        output, _ = module(batch)
        ops.count = OpCount()
        data = output.data if packed else output
        torch.autograd.backward([data], [torch.empty_like(data)])
    assert same_operations(tracker.report.backward.executed, ops.count)


def test_a_real_model_is_verified_and_stays_as_it_was() -> None:
    model, x = Tagger(), torch.randn(3, 6, 3)
    bare = model(x, [6, 2, 3])
    with rnncost.CostTracker(model, verify=True) as tracker:
        assert torch.equal(model(x, [6, 2, 3]), bare)
    verification = tracker.report.verification
    assert verification is not None
    assert (verification.agrees, verification.calls, verification.differences) == (True, 2, ())


def test_a_count_that_differs_is_said() -> None:
    class Lying:
        def spec(self, module: nn.Module) -> rnncost.RnnSpec:
            return rnncost.RnnSpec(kind="gru", input_size=3, hidden_size=4)

        def shape(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> rnncost.BatchShape:
            return rnncost.BatchShape.rectangle(sequences=1, steps=1)

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(3, 4)

        def forward(self, x: Tensor) -> Any:
            return self.rnn.forward(x)

    rnncost.register_reader(Wrapper)(Lying)
    with rnncost.CostTracker(Wrapper(), verify=True) as tracker:
        tracker._watch._model(padded_batch(LENGTHS, 3))  # type: ignore[attr-defined]
    verification = tracker.report.verification
    assert verification is not None
    assert not verification.agrees
    assert verification.describe(partial=False, calls=1) == (
        "NOT VERIFIED: Wrapper: 84 MACs counted, 1,680 in kernels."
    )


def test_overlapping_eyes_each_see() -> None:
    module, batch = nn.GRU(3, 4), packed_batch(LENGTHS, 3)
    first = rnncost.CostTracker(module, verify=True)
    second = rnncost.CostTracker(module, verify=True)
    first.__enter__()
    second.__enter__()
    module(batch)
    first.__exit__(None, None, None)
    module(batch)
    second.__exit__(None, None, None)
    module(batch)
    found = [tracker.report.verification for tracker in (first, second)]
    assert [each.calls for each in found if each is not None] == [1, 2]
    assert all(each is not None and each.agrees for each in found)


def test_merged_verifications_add_up() -> None:
    module, batch = nn.GRU(3, 4), packed_batch(LENGTHS, 3)
    with rnncost.CostTracker(module, verify=True) as tracker:
        module(batch)
    merged = tracker.report.merge(tracker.report)
    assert merged.verification is not None
    assert merged.verification.kernel_macs == 2 * tracker.report.executed.macs == merged.executed.macs


@pytest.mark.parametrize("backward", [False, True])
def test_kernels_outside_modules_are_summed_as_they_come(backward: bool) -> None:
    cell = nn.GRUCell(3, 4)
    with rnncost.CostTracker(nn.Identity(), verify=True, backward=backward) as tracker:
        alive = []
        for _ in range(300):
            state = torch.gru_cell(torch.zeros(2, 3), torch.zeros(2, 4), *cell.parameters())
            alive.append(weakref.ref(state))
        assert tracker._eye is not None
        assert len(tracker._eye._log.calls) <= 64
        del state
        gc.collect()
        assert [reference() for reference in alive if reference() is not None] == []
    assert tracker.report.layers[0].tally.calls == 300


def test_leaving_survives_a_swapped_mode_stack_and_other_threads() -> None:
    module = nn.GRU(3, 4)
    tracker = rnncost.CostTracker(module, verify=True)
    with torch.device("cpu"):
        tracker.__enter__()
    tracker.__exit__(None, None, None)
    assert not module._forward_hooks
    _pop_mode()  # torch.device took the tracker's mode for its own, and left its own
    other = rnncost.CostTracker(module, verify=True)
    thread = threading.Thread(target=other.__enter__)
    thread.start()
    thread.join()
    other.__exit__(None, None, None)
    assert not module._forward_hooks


def test_a_kernel_run_by_a_hook_of_the_users_is_not_taken_for_the_modules_own() -> None:
    module, other = nn.GRU(3, 4), nn.GRU(5, 6)
    module.register_forward_hook(lambda *_: other.forward(torch.zeros(2, 1, 5)))
    with rnncost.CostTracker(module, verify=True) as tracker:
        module(padded_batch(LENGTHS, 3))
    assert [(layer.source, str(layer.spec)) for layer in tracker.report.layers] == [
        ("module", "GRU 3x4"),
        ("kernel", "GRU 5x6"),
    ]
    assert tracker.report.verification is not None
    assert tracker.report.verification.agrees
