"""The time of each call inside the user's own run: exact on a made-up clock, sane on a real one."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import rnncost
from rnncost.errors import DeviceError
from rnncost.examples import minimal_gru as minimal_gru_example
from rnncost.reporting.notes import notes
from rnncost.tracking import gradients
from rnncost.tracking.backward_times import _Mark
from rnncost.tracking.durations import QUEUE_LENGTH
from rnncost.tracking.moments import CpuMoments, EventMoments, moments_for
from tests.builders import packed_batch, padded_batch
from tests.tracking.fake_time import FakeDevice, FakeTime, Slow, seconds, use_moments
from tests.tracking.models import Failing, Holder, Tagger
from tests.tracking.reading import only

LENGTHS = (5, 4, 4, 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake = FakeTime()
    use_moments(monkeypatch, lambda device: fake)
    return fake


@pytest.fixture(autouse=True)
def _no_mark_left() -> Iterator[None]:
    """Fails any test after which a hook on an autograd node is still alive."""
    yield
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is _Mark]


def by_name(tracker: rnncost.CostTracker) -> dict[str, tuple[int, float, int, float, int]]:
    return {layer.name: seconds(layer.run_time) for layer in tracker.report.layers}


# Forward.


@pytest.mark.parametrize("whole_process", [False, True])
def test_each_layer_has_its_own_time(clock: FakeTime, whole_process: bool) -> None:
    model = Tagger()
    with rnncost.CostTracker(None if whole_process else model, timing=True) as tracker:
        clock.forward_takes(model.encoder, 3)
        clock.forward_takes(model.decoder, 5)
        for _ in range(2):
            model(torch.randn(2, 6, 3), [6, 2])
            clock.advance(100)  # outside
    assert list(by_name(tracker).values()) == [(2, 6, 0, 0, 0), (2, 10, 0, 0, 0)]
    total = tracker.report.run_time
    assert total is not None
    assert (total.device, total.forward_s, total.total_s) == ("cpu", 16, 16)


@pytest.mark.parametrize("whole_process", [False, True])
@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell, nn.GRU])
def test_keyword_calls_and_cells(clock: FakeTime, whole_process: bool, kind: Any) -> None:
    module = kind(3, 4)
    with rnncost.CostTracker(None if whole_process else module, timing=True) as tracker:
        clock.forward_takes(module, 2)
        module(input=torch.randn(2, 3))
        module(torch.randn(2, 3))
    assert seconds(only(tracker.report).run_time) == (2, 4, 0, 0, 0)


class Outer(nn.GRU):
    """Calls a watched child, and itself once more."""

    def __init__(self, clock: FakeTime) -> None:
        super().__init__(3, 3)
        self.child = nn.GRU(3, 3)
        self.clock = clock

    def forward(self, x: Tensor, again: bool = True) -> Any:  # type: ignore[override]
        self.clock.advance(1)
        x = self.child(x)[0]
        if again:
            x = self(x, again=False)[0]
        return super().forward(x)


@pytest.mark.parametrize("whole_process", [False, True])
def test_no_time_is_charged_twice(clock: FakeTime, whole_process: bool) -> None:
    module = Outer(clock)
    with rnncost.CostTracker(None if whole_process else module, timing=True) as tracker:
        clock.forward_takes(module.child, 10)
        module(torch.randn(5, 2, 3))
    found = {str(layer.source): seconds(layer.run_time)[:2] for layer in tracker.report.layers}
    assert found == {"subclass": (2, 2), "module": (2, 20)}


@pytest.mark.parametrize("whole_process", [False, True])
def test_what_a_reader_states_has_the_time_of_the_whole(clock: FakeTime, whole_process: bool) -> None:
    module: Any = minimal_gru_example.MinimalGRU(3, 4)
    with rnncost.CostTracker(None if whole_process else module, timing=True) as tracker:
        clock.forward_takes(module, 4)
        module(torch.randn(5, 2, 3))
    assert seconds(only(tracker.report).run_time) == (1, 4, 0, 0, 0)


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_a_forward_that_raises_is_not_timed_and_leaves_nothing(clock: FakeTime, error: type[BaseException]) -> None:
    module = nn.GRU(3, 4)

    def fail(*_: object) -> None:
        clock.advance(50)
        raise error

    with rnncost.CostTracker(module, timing=True) as tracker:
        handle = module.register_forward_pre_hook(fail)
        with pytest.raises(error):
            module(torch.randn(5, 2, 3))
        handle.remove()
        clock.forward_takes(module, 2)
        module(torch.randn(5, 2, 3))
    assert seconds(only(tracker.report).run_time) == (1, 2, 0, 0, 0)
    with rnncost.CostTracker(Failing(), timing=True) as tracker, pytest.raises(KeyError):
        tracker._watch._model(torch.randn(5, 2, 3))  # type: ignore[attr-defined]
    assert seconds(only(tracker.report).run_time)[0] == 1


def test_entering_again_adds_and_what_runs_outside_does_not(clock: FakeTime) -> None:
    module = nn.GRU(3, 4)
    clock.forward_takes(module, 2)  # before the tracker's own hook, so not in its calls
    tracker = rnncost.CostTracker(module, timing=True)
    for _ in range(2):
        with tracker:
            module(torch.randn(5, 2, 3))
        module(torch.randn(5, 2, 3))
    assert seconds(only(tracker.report).run_time)[0] == 2


def test_threads_lose_no_call() -> None:
    module, batch = nn.GRU(3, 4), padded_batch(LENGTHS, 3)

    def train() -> None:
        for _ in range(100):
            module(batch)[0].sum().backward()

    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        threads = [threading.Thread(target=train) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = seconds(only(tracker.report).run_time)
    assert found[0] == 400
    assert found[2] + found[4] == 400


# Backward.


def test_backward_is_the_calls_own_and_nothing_around_it(clock: FakeTime) -> None:
    first, second = nn.GRU(3, 4), nn.LSTM(4, 5, 2, bidirectional=True)
    embedded = torch.randn(5, 2, 3, requires_grad=True)
    with rnncost.CostTracker(nn.ModuleList([first, second]), timing=True, backward=True) as tracker:
        x = Slow.apply(embedded, clock, 100.0)
        with clock.backward_takes(3):
            x = first(x)[0]
        x = Slow.apply(x, clock, 100.0)
        with clock.backward_takes(5):
            x = second(x)[0]
        Slow.apply(x, clock, 100.0).sum().backward()
    assert by_name(tracker) == {"0": (1, 0, 1, 3, 0), "1": (1, 0, 1, 5, 0)}


def test_layers_beside_each_other_on_one_input(clock: FakeTime) -> None:
    # The input has its gradient only when both are done; the weights tell them apart.
    layers = nn.ModuleList([nn.GRU(3, 4), nn.GRU(3, 4)])
    x = torch.randn(5, 2, 3, requires_grad=True) * 1
    with rnncost.CostTracker(layers, timing=True, backward=True) as tracker:
        total = torch.zeros(())
        for layer, takes in zip(layers, (3, 5), strict=True):
            with clock.backward_takes(takes):
                total = total + layer(x)[0].sum()
        total.backward()
    assert by_name(tracker) == {"0": (1, 0, 1, 3, 0), "1": (1, 0, 1, 5, 0)}


def test_frozen_layers_beside_each_other(clock: FakeTime) -> None:
    layers = nn.ModuleList([nn.GRU(3, 4), nn.GRU(3, 4)]).requires_grad_(False)
    x = torch.randn(5, 2, 3, requires_grad=True) * 1
    with rnncost.CostTracker(layers, timing=True, backward=True) as tracker:
        total = torch.zeros(())
        for layer, takes in zip(layers, (3, 5), strict=True):
            with clock.backward_takes(takes):
                total = total + layer(x)[0].sum()
        total.backward()
    assert by_name(tracker) == {"0": (1, 0, 1, 3, 0), "1": (1, 0, 1, 5, 0)}


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_a_loop_of_two_cells(clock: FakeTime, kind: Any) -> None:
    lower, upper = kind(3, 4), kind(4, 4)
    with rnncost.CostTracker(nn.ModuleList([lower, upper]), timing=True, backward=True) as tracker:
        clock.forward_takes(lower, 1)
        below = above = None
        for step in torch.randn(6, 2, 3):
            with clock.backward_takes(3):
                below = lower(step, below)
            with clock.backward_takes(5):
                above = upper(below[0] if isinstance(below, tuple) else below, above)
        result: Any = above[0] if isinstance(above, tuple) else above
        result.sum().backward()
    assert by_name(tracker) == {"0": (6, 6, 6, 18, 0), "1": (6, 0, 6, 30, 0)}


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell])
def test_the_work_of_the_tracker_itself_is_in_no_time(
    clock: FakeTime, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    def slow(node: Any) -> bool:
        clock.advance(1000)
        return True

    monkeypatch.setattr(gradients, "_runs", slow)
    cell = kind(3, 4)
    with rnncost.CostTracker(cell, timing=True, backward=True) as tracker:
        state: Any = None
        for step in torch.randn(6, 2, 3):
            with clock.backward_takes(3):
                state = cell(step, state)
        (state[0] if isinstance(state, tuple) else state).sum().backward()
    assert seconds(only(tracker.report).run_time) == (6, 0, 6, 18, 0)


def test_one_layer_twice_in_a_pass(clock: FakeTime) -> None:
    module = nn.GRU(3, 3)
    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        x = torch.randn(5, 2, 3)
        for takes in (3, 5):
            with clock.backward_takes(takes):
                x = module(x)[0]
        x.sum().backward()
    assert seconds(only(tracker.report).run_time) == (2, 0, 2, 8, 0)


def test_a_siamese_use_is_not_guessed(clock: FakeTime) -> None:
    module = nn.GRU(3, 3)
    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        with clock.backward_takes(3):
            first = module(torch.randn(5, 2, 3))[0]
        with clock.backward_takes(5):
            second = module(torch.randn(5, 2, 3))[0]
        (first.sum() + Slow.apply(second, clock, 1.0).sum()).backward()
    # The weights have their gradients when the call made first, whose backward comes last, is done.
    assert seconds(only(tracker.report).run_time) == (2, 0, 1, 3, 1)
    assert "Not timed: the backward of 1 call of GRU." in " ".join(str(_text(tracker.report)).split())


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_recomputation_is_forward_time(clock: FakeTime, reentrant: bool, batch_first: bool, kind: Any) -> None:
    module = kind(3, 4, batch_first=batch_first)
    x = torch.randn(5, 2, 3, requires_grad=True)
    # As long as the first operation of the backward: where nothing is recomputed it is saved as it is.
    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        clock.forward_takes(module, 3)
        output = checkpoint(lambda given: module(given)[0], x, use_reentrant=reentrant)
        clock.advance(100)
        output.sum().backward()
    found = seconds(only(tracker.report).run_time)
    assert found == (2, 6, 1, 0, 0)


def test_some_gradients_only(clock: FakeTime) -> None:
    module = nn.GRU(3, 4)
    x = torch.randn(5, 2, 3, requires_grad=True) * 1
    state = torch.zeros(1, 2, 4, requires_grad=True) * 1
    weight: Any = module.weight_hh_l0

    def timed(inputs: list[Tensor], *, by_grad: bool) -> tuple[int, float, int]:
        with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
            with clock.backward_takes(3):
                total = module(x, state)[0].sum()
            if by_grad:
                torch.autograd.grad(total, inputs)
            else:
                torch.autograd.backward(total, inputs=inputs)
        found = only(tracker.report).run_time
        assert found is not None
        return found.backward_calls, found.backward_s, found.backward_untimed

    assert timed([weight], by_grad=False) == (1, 3, 0)
    # What torch.autograd.grad returns passes no node.
    assert timed([weight], by_grad=True) == (0, 0, 1)
    assert timed([x], by_grad=True) == (0, 0, 1)


def test_a_repeated_backward_is_timed_again(clock: FakeTime) -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        with clock.backward_takes(3):
            total = module(packed_batch(LENGTHS, 3))[0].data.sum()
        total.backward(retain_graph=True)
        clock.advance(100)
        total.backward()
    assert seconds(only(tracker.report).run_time) == (1, 0, 2, 6, 0)


def test_a_report_in_the_middle_of_a_backward_ends_nothing(clock: FakeTime) -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        output = module(torch.randn(5, 2, 3))[0]
        before: list[Any] = []
        weight: Any = module.weight_hh_l0
        weight.register_hook(lambda grad: before.append(only(tracker.report).run_time))
        output.sum().backward()
        assert seconds(before[0])[2:] == (0, 0, 0)
        after = only(tracker.report).run_time
    assert after is not None
    assert (after.backward_calls, after.backward_untimed) == (1, 0)


def test_a_backward_that_raises_leaves_nothing(clock: FakeTime) -> None:
    module = nn.GRU(3, 4)

    def fail(grad: Tensor) -> None:
        raise RuntimeError("in backward")

    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        x = torch.randn(5, 2, 3, requires_grad=True) * 1
        x.register_hook(fail)
        for _ in range(100):
            with clock.backward_takes(3), pytest.raises(RuntimeError, match="in backward"):
                module(x)[0].sum().backward()
    found = only(tracker.report).run_time
    assert found is not None
    assert found.backward_calls + found.backward_untimed == 100
    assert found.backward_s == 3 * found.backward_calls


class OwnForward(nn.GRU):
    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        return super().forward(x)


def test_the_kernels_of_a_subclass(clock: FakeTime) -> None:
    module = OwnForward(3, 4)
    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        clock.forward_takes(module, 2)
        with clock.backward_takes(3):
            total = module(torch.randn(5, 2, 3))[0].sum()
        total.backward()
    assert seconds(only(tracker.report).run_time) == (1, 2, 1, 3, 0)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_functional_transforms_run_as_ever() -> None:
    cell, x = nn.GRUCell(3, 4), torch.randn(2, 3)
    expected = torch.func.jacrev(lambda given: cell(given).sum(0))(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rnncost.CostTracker(cell, timing=True, backward=True) as tracker:
            found = torch.func.jacrev(lambda given: cell(given).sum(0))(x)
            torch.vmap(cell)(torch.randn(7, 2, 3))
    assert torch.equal(found, expected)
    assert seconds(only(tracker.report).run_time)[0] == 2


# What is left as it was.


def test_results_and_modules_are_as_without() -> None:
    torch.manual_seed(0)
    model, x = Tagger(), torch.randn(3, 6, 3)
    state = set(vars(model.encoder))
    results = []
    for timing in (False, True):
        model.zero_grad()
        with rnncost.CostTracker(model, backward=True, timing=timing):
            output = model(x, [6, 2, 3])
            output.sum().backward()
            for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
                assert not made.encoder._forward_hooks
                assert not made.encoder._forward_pre_hooks
        results.append([output, *(weight.grad for weight in model.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    assert all(weight._backward_hooks is None for weight in model.parameters())
    assert set(vars(model.encoder)) == state
    assert not model.encoder._forward_pre_hooks


def test_without_timing_nothing_is_added() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, backward=True) as tracker:
        assert not module._forward_pre_hooks
        module(torch.randn(5, 2, 3))[0].sum().backward()
    assert only(tracker.report).run_time is None
    assert "time in this run" not in _text(tracker.report)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("allow_rnn", [False, True])
def test_compiled_traced_and_exported_models(backend: str, allow_rnn: bool) -> None:
    model, batch = Holder(nn.GRU(3, 4)), padded_batch(LENGTHS, 3)
    expected = model(batch)
    with rnncost.CostTracker(model, timing=True, backward=True) as tracker:
        with torch._dynamo.config.patch(allow_rnn=allow_rnn):
            compiled: Any = torch.compile(model, backend=backend)
            for _ in range(2):
                assert torch.allclose(compiled(batch), expected)
                compiled(batch).sum().backward()
        torch._dynamo.reset()
        before = tracker.report.layers[0].run_time
        torch.jit.trace(model, batch, check_trace=False)  # type: ignore[no-untyped-call]
        for strict in (False, True) if hasattr(torch.compiler, "is_exporting") else (False,):
            torch.export.export(model, (batch,), strict=strict)
        assert tracker.report.layers[0].run_time == before
        assert torch.equal(model(batch), expected)


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_says_that_its_forward_is_not_timed() -> None:
    compiled: Any = torch.compile(Holder(nn.GRU(3, 4)), backend="eager")
    with rnncost.CostTracker(compiled, timing=True) as tracker:
        compiled(padded_batch(LENGTHS, 3))
    torch._dynamo.reset()
    assert only(tracker.report).tally.calls == 1
    assert only(tracker.report).run_time is None
    assert "is not timed" in " ".join(notes(tracker.report))


# Accelerators, by events that are none.


def test_nothing_waits_for_a_device_before_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice()
    use_moments(monkeypatch, lambda _: device.moments())
    module, batch = nn.GRU(3, 4), padded_batch(LENGTHS, 3)
    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        module.register_forward_pre_hook(lambda *_: _enqueue(device, 250))
        for _ in range(3):
            module(batch)[0].sum().backward()
    assert device.log == []
    assert seconds(only(tracker.report).run_time) == (3, 0.75, 3, 0, 0)
    assert device.log == ["synchronize"]
    assert seconds(only(tracker.report).run_time) == (3, 0.75, 3, 0, 0)
    assert device.log == ["synchronize"]  # nothing new to wait for


def test_memory_does_not_grow_with_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    device, most = FakeDevice(), 0
    use_moments(monkeypatch, lambda _: device.moments())
    module, batch = nn.GRU(1, 1), padded_batch([1], 1)
    with torch.no_grad(), rnncost.CostTracker(module, timing=True) as tracker:
        module.register_forward_pre_hook(lambda *_: _enqueue(device, 1))
        for _ in range(2000):
            module(batch)
            device.done_ms = device.enqueued_ms - 10  # it runs ten milliseconds behind
            most = max(most, device.alive)
    assert most <= 2 * (QUEUE_LENGTH + 1)
    assert device.log == []
    calls, forward_s, *_ = seconds(only(tracker.report).run_time)
    assert (calls, round(forward_s, 9)) == (2000, 2.0)


def test_a_captured_call_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice()
    use_moments(monkeypatch, lambda _: device.moments())
    module, batch = nn.GRU(3, 4), padded_batch(LENGTHS, 3)
    with rnncost.CostTracker(module, timing=True) as tracker:
        module(batch)
        device.capturing = True
        module(batch)
    assert seconds(only(tracker.report).run_time)[0] == 1
    assert "Not timed: 1 forward call of GRU." in _text(tracker.report)


def test_what_no_clock_is_known_for_is_not_timed() -> None:
    module = nn.GRU(3, 4, device="meta")
    with rnncost.CostTracker(module, timing=True, backward=True) as tracker:
        module(torch.zeros(5, 2, 3, device="meta"))[0].sum().backward()
    assert only(tracker.report).run_time is None
    assert "GRU is not timed: no clock is known for its device" in " ".join(notes(tracker.report))
    with pytest.raises(DeviceError, match="no clock is known for device 'meta'"):
        moments_for(torch.device("meta"))
    assert isinstance(moments_for(torch.device("cpu")), CpuMoments)
    for name in ("cuda:1", "xpu", "mps"):
        assert isinstance(moments_for(torch.device(name)), EventMoments)


# Real clocks.


@pytest.mark.parametrize("whole_process", [False, True])
def test_real_times_are_sane(whole_process: bool) -> None:
    model, x = Tagger(), torch.randn(8, 60, 3, requires_grad=True)
    begin = time.perf_counter()
    with rnncost.CostTracker(None if whole_process else model, timing=True, backward=True) as tracker:
        for _ in range(10):
            model(x * 1, [60, 50, 40, 30, 20, 10, 5, 1]).sum().backward()
    wall_s = time.perf_counter() - begin
    for layer in tracker.report.layers:
        found = layer.run_time
        assert found is not None
        assert (found.forward_calls, found.backward_calls, found.backward_untimed) == (10, 10, 0)
        assert found.forward_s > 0
        assert found.backward_s > 0
    total = tracker.report.run_time
    assert total is not None
    assert total.total_s <= wall_s


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_real_times_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = nn.LSTM(64, 256, 2, bidirectional=True).cuda(), torch.randn(50, 32, 64, device="cuda")
    model(x)[0].sum().backward()
    torch.cuda.synchronize()
    waited = []
    real = torch.cuda.synchronize

    def synchronize(*device: Any) -> None:
        waited.append(1)
        real(*device)

    begin = time.perf_counter()
    with rnncost.CostTracker(model, timing=True, backward=True) as tracker:
        monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
        for _ in range(20):
            model(x)[0].sum().backward()
        assert waited == []
        found = only(tracker.report).run_time
        assert waited == [1]
    wall_s = time.perf_counter() - begin
    assert found is not None
    assert (found.device, found.forward_calls, found.backward_calls, found.backward_untimed) == ("cuda", 20, 20, 0)
    assert 0 < found.forward_s < found.total_s <= wall_s


def _enqueue(device: FakeDevice, milliseconds: float) -> None:
    device.enqueued_ms += milliseconds


def _text(report: rnncost.CostReport) -> str:
    from rnncost.reporting.renderers.text import TextRenderer

    return " ".join(TextRenderer().render(report).split())
