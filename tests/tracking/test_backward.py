"""The backward passes that really ran: none more, none less, and exactly what they did."""

from __future__ import annotations

import itertools
import threading
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.checkpoint import checkpoint

import rnncost
from rnncost.counting import OpCount, RnnSpec
from rnncost.errors import UncountedModuleWarning
from tests.builders import build_module, packed_batch, padded_batch
from tests.oracle import dispatched, same_operations
from tests.tracking.models import Tagger

LENGTHS = (5, 4, 4, 1)
SPECS = [
    RnnSpec(kind="lstm", input_size=3, hidden_size=4, num_layers=2, bidirectional=True),
    RnnSpec(kind="lstm", input_size=3, hidden_size=4, proj_size=2),
    RnnSpec(kind="gru", input_size=3, hidden_size=4, num_layers=2),
    RnnSpec(kind="rnn_tanh", input_size=3, hidden_size=4, bidirectional=True, bias=False),
]


def tensors(result: Any, through: str) -> list[Tensor]:
    output, final = result
    state, cell = final if isinstance(final, tuple) else (final, final)
    chosen = {"output": output.data if isinstance(output, PackedSequence) else output, "state": state, "cell": cell}
    return [chosen[name] for name in through.split("+")]


def backward(result: Any, through: str = "output") -> None:
    reached = tensors(result, through)
    torch.autograd.backward(reached, [torch.empty_like(tensor) for tensor in reached])


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("through", ["output", "state", "output+state"])
@pytest.mark.parametrize(("input_grad", "state_grad"), list(itertools.product([False, True], repeat=2)))
def test_a_training_step_equals_what_was_dispatched(
    spec: RnnSpec, packed: bool, through: str, input_grad: bool, state_grad: bool
) -> None:
    module = build_module(spec)
    batch: Any = (packed_batch if packed else padded_batch)(LENGTHS, 3)
    (batch.data if packed else batch).requires_grad_(input_grad)
    layers = spec.num_layers * spec.directions
    hidden = torch.zeros(layers, len(LENGTHS), spec.output_size, requires_grad=state_grad)
    cell = torch.zeros(layers, len(LENGTHS), spec.hidden_size, requires_grad=state_grad)
    with rnncost.CostTracker(module, backward=True) as tracker, dispatched() as ops:
        result = module(batch, (hidden, cell) if spec.kind == "lstm" else hidden)
        ops.count = OpCount()
        backward(result, through)
    assert same_operations(tracker.report.backward.executed, ops.count)
    assert tracker.report.costs.executed == tracker.report.forward.executed + tracker.report.backward.executed


def calls(report: rnncost.CostReport) -> int:
    return sum(call.backward.calls for layer in report.layers for call in layer.backward_calls)


def test_each_call_counts_once_however_the_gradient_comes() -> None:
    module = nn.LSTM(3, 4)
    for through in ("output", "state", "cell", "output+state+cell"):
        with rnncost.CostTracker(module, backward=True) as tracker:
            backward(module(packed_batch(LENGTHS, 3)), through)
        assert calls(tracker.report) == 1


def test_what_did_not_run_does_not_count() -> None:
    module, batch = nn.GRU(3, 4), padded_batch(LENGTHS, 3)
    with rnncost.CostTracker(module, backward=True) as tracker:
        with torch.no_grad():
            module(batch)
        module(batch)  # took no part in any loss
        module(batch)[0].detach().sum()
        assert calls(tracker.report) == 0
        backward(module(batch))
        kept = module(batch)
    backward(kept)  # after the tracker was left
    assert calls(tracker.report) == 1
    assert tracker.report.layers[0].tally.calls == 5


class GivesNothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        return None


def test_an_output_that_gets_no_gradient_at_all() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, backward=True) as tracker:
        GivesNothing.apply(module(padded_batch(LENGTHS, 3))[0]).sum().backward()
    assert calls(tracker.report) == 0


def test_a_repeated_backward_counts_again() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, backward=True) as tracker:
        loss = module(padded_batch(LENGTHS, 3))[0].sum()
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
        torch.autograd.grad(loss, list(module.parameters()))
    assert calls(tracker.report) == 3


@pytest.mark.parametrize("chosen", ["input", "state", "weight_hh_l0", "bias_ih_l0"])
@pytest.mark.parametrize("by", ["grad", "inputs"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_backward_for_some_gradients_only(chosen: str, by: str, packed: bool) -> None:
    module = nn.GRU(3, 4, 2)
    batch: Any = (packed_batch if packed else padded_batch)(LENGTHS, 3)
    data = batch.data if packed else batch
    hidden = torch.zeros(2, len(LENGTHS), 4)
    wanted = {"input": data, "state": hidden, **dict(module.named_parameters())}[chosen]
    data.requires_grad_(True)
    hidden.requires_grad_(True)
    with rnncost.CostTracker(module, backward=True) as tracker, dispatched() as ops:
        output, _ = module(batch, hidden)
        reached = output.data if packed else output
        gradient = torch.empty_like(reached)
        ops.count = OpCount()
        if by == "grad":
            torch.autograd.grad([reached], [wanted], [gradient])
        else:
            torch.autograd.backward([reached], [gradient], inputs=[wanted])
    assert same_operations(tracker.report.backward.executed, ops.count)


def test_frozen_weights_cost_nothing() -> None:
    module = nn.GRU(3, 4)
    module.weight_ih_l0.requires_grad_(False)
    module.bias_hh_l0.requires_grad_(False)
    batch = packed_batch(LENGTHS, 3)
    with rnncost.CostTracker(module, backward=True) as tracker, dispatched() as ops:
        result = module(batch)
        ops.count = OpCount()
        backward(result)
    assert tracker.report.layers[0].backward_calls[0].kind.frozen == ("bias_hh_l0", "weight_ih_l0")
    assert same_operations(tracker.report.backward.executed, ops.count)


def test_gradients_of_weights_that_serve_twice_are_summed() -> None:
    module = nn.RNN(3, 3)
    batch = padded_batch(LENGTHS, 3)
    with rnncost.CostTracker(module, backward=True) as tracker, dispatched() as ops:
        first, _ = module(batch)
        second, _ = module(first)
        ops.count = OpCount()
        torch.autograd.backward([second], [torch.empty_like(second)])
    assert same_operations(tracker.report.backward.executed, ops.count)
    assert sum(call.backward.passes for call in tracker.report.layers[0].backward_calls) == 1


def test_a_loop_of_cells_equals_what_was_dispatched() -> None:
    for cell in (nn.RNNCell(3, 4), nn.GRUCell(3, 4), nn.LSTMCell(3, 4)):
        state: Any = None
        x = torch.randn(5, 2, 3).unbind()
        with rnncost.CostTracker(cell, backward=True) as tracker, dispatched() as ops:
            for step in x:
                state = cell(step, state)
            hidden = state[0] if isinstance(state, tuple) else state
            forward = ops.count
            ops.count = OpCount()
            assert hidden is not None
            torch.autograd.backward([hidden], [torch.empty_like(hidden)])
        assert same_operations(tracker.report.forward.executed, forward)
        counted = tracker.report.backward.executed
        if isinstance(cell, nn.LSTMCell):
            # The bound that BackwardCall documents: the last cell state, which nobody used.
            counted -= OpCount(accumulate_adds=2 * 4)
        assert same_operations(counted, ops.count), cell


class OwnForward(nn.GRU):
    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        return super().forward(x)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, OwnForward])
@pytest.mark.parametrize("verify", [False, True])
def test_recomputation_is_executed_work_and_named(reentrant: bool, kind: Any, verify: bool) -> None:
    module = kind(3, 4)
    x = padded_batch(LENGTHS, 3).requires_grad_(True)
    with rnncost.CostTracker(module, backward=True, verify=verify) as tracker:
        output = checkpoint(lambda given: module(given)[0], x, use_reentrant=reentrant)
        output.sum().backward()
    layer = tracker.report.layers[0]
    assert (layer.tally.calls, layer.recomputed_calls, calls(tracker.report)) == (2, 1, 1)
    assert "Recomputed in the backward pass" in _text(tracker.report)


def test_a_backward_of_a_backward_is_named_not_guessed() -> None:
    module = nn.GRU(3, 4)
    x = padded_batch(LENGTHS, 3).requires_grad_(True)
    with pytest.warns(UncountedModuleWarning, match="create_graph"):  # noqa: SIM117
        with rnncost.CostTracker(module, backward=True) as tracker:
            torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
    assert tracker.report.partial


def test_gradients_and_random_state_do_not_change() -> None:
    torch.manual_seed(0)
    model, x = Tagger(), torch.randn(3, 6, 3)
    results = []
    for tracked in (False, True):
        model.zero_grad()
        torch.manual_seed(1)
        with rnncost.CostTracker(model if tracked else nn.Identity(), backward=True, verify=tracked):
            model(x, [6, 2, 3]).sum().backward()
        results.append([torch.random.get_rng_state(), *(weight.grad for weight in model.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_a_failing_backward_counts_what_arrived() -> None:
    module = nn.GRU(3, 4)
    x = padded_batch(LENGTHS, 3).requires_grad_(True)

    def fail(grad: Tensor) -> None:
        raise RuntimeError("in backward")

    with rnncost.CostTracker(module, backward=True) as tracker:
        x2 = x * 1
        x2.register_hook(fail)
        output, _ = module(x2)
        with pytest.raises(RuntimeError, match="in backward"):
            output.sum().backward()
    assert calls(tracker.report) == 1


def test_the_quadratic_part_of_packing_is_named_where_it_matters() -> None:
    module = nn.RNN(1, 1)
    with rnncost.CostTracker(module, backward=True) as tracker:
        backward(module(packed_batch([60, 59], 1)))
    layer = tracker.report.layers[0]
    rows, steps = 119, 60
    assert layer.slicing_adds == (steps - 1) * rows * 1
    assert "come of slicing packed data" in _text(tracker.report)
    # Packing saved rows and cost additions: both are shown.
    assert tracker.report.backward.saved.adds < 0


def test_threads_lose_no_backward() -> None:
    module = nn.GRU(3, 4)

    def train() -> None:
        for _ in range(50):
            module(padded_batch(LENGTHS, 3))[0].sum().backward()

    with rnncost.CostTracker(module, backward=True) as tracker:
        threads = [threading.Thread(target=train) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (tracker.report.layers[0].tally.calls, calls(tracker.report)) == (200, 200)


def test_several_calls_in_one_pass_are_one_pass() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, backward=True) as tracker:
        for _ in range(5):
            outputs = [module(padded_batch(LENGTHS, 3))[0] for _ in range(4)]
            torch.stack(outputs).sum().backward()
    assert calls(tracker.report) == 20
    assert sum(call.backward.passes for call in tracker.report.layers[0].backward_calls) == 5


@pytest.mark.parametrize("module", [nn.LSTM(3, 4), nn.LSTMCell(3, 4)])
def test_states_given_in_a_list(module: nn.Module) -> None:
    sizes = (2, 4) if isinstance(module, nn.LSTMCell) else (1, 2, 4)
    x = torch.zeros(2, 3) if isinstance(module, nn.LSTMCell) else torch.zeros(5, 2, 3)
    with rnncost.CostTracker(module, backward=True) as tracker:
        output = module(x, [torch.zeros(sizes), torch.zeros(sizes)])[0]
        output.sum().backward()
    assert calls(tracker.report) == 1


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_torch_func_runs_and_what_it_multiplies_is_counted_or_named() -> None:
    cell, x = nn.GRUCell(3, 4), torch.randn(7, 2, 3)
    with rnncost.CostTracker(cell, verify=True) as tracker:
        torch.vmap(cell)(x)
    assert tracker.report.layers[0].tally.rows == 14
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncountedModuleWarning)
        with rnncost.CostTracker(cell, backward=True) as tracker:
            torch.func.jacrev(lambda given: cell(given).sum(0))(x[0])
    assert any("torch.vmap" in found.reason for found in tracker.report.uncounted)


def _text(report: rnncost.CostReport) -> str:
    from rnncost.reporting.renderers.text import TextRenderer

    return " ".join(TextRenderer().render(report).split())


def test_a_report_in_the_middle_of_a_pass_does_not_count_it_twice() -> None:
    torch.manual_seed(0)
    module = nn.GRU(3, 4)
    x = torch.randn(5, 2, 3)
    with rnncost.CostTracker(module, backward=True) as tracker:
        output, state = module(x)
        seen = []
        # The output's gradient arrives first; the state's only once the report was read.
        late = state.tanh()
        late.register_hook(lambda grad: seen.append(tracker.report.layers[0].backward_calls))
        (output.sum() + late.sum()).backward()
        middle = tracker.report.layers[0].backward_calls
    [call] = tracker.report.layers[0].backward_calls
    assert len(seen) == 1
    assert (call.kind.through_output, call.kind.through_state) == (True, True)
    assert call.backward.calls == call.backward.passes == 1
    assert middle == (call,)
