"""Every kind of recurrent module: what is counted, or that it is named."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils.parametrizations import weight_norm

import rnncost
from rnncost.counting import BatchShape, OpCount, RnnSpec
from rnncost.errors import UncountedModuleWarning
from tests.builders import build_module, packed_batch, padded_batch
from tests.oracle import dispatched, same_operations
from tests.tracking.models import Holder
from tests.tracking.reading import only, rows

LENGTHS = (5, 4, 4, 1)


# Cells.


@pytest.mark.parametrize(
    "cell", [nn.RNNCell(3, 4), nn.RNNCell(3, 4, nonlinearity="relu"), nn.GRUCell(3, 4), nn.LSTMCell(3, 4, bias=False)]
)
def test_a_loop_of_cells_over_shrinking_batches(cell: nn.Module) -> None:
    x = padded_batch(LENGTHS, 3)
    sizes = BatchShape.from_lengths(LENGTHS).batch_sizes
    with torch.no_grad(), rnncost.CostTracker(cell) as tracker, dispatched() as ops:
        state: Any = None
        for step, size in zip(x.unbind(), sizes, strict=True):
            if state is not None:
                state = tuple(part[:size] for part in state) if isinstance(state, tuple) else state[:size]
            state = cell(step[:size], state)
    layer = only(tracker.report)
    assert rows(layer) == (sum(sizes), sum(sizes), None)
    assert layer.tally.calls == len(sizes)
    assert same_operations(layer.executed, ops.count)
    assert "cell 3x4" in str(layer.spec)


def test_an_unbatched_cell_is_one_row() -> None:
    assert rows(only(rnncost.analyze(nn.GRUCell(3, 4), torch.zeros(3))))[0] == 1
    assert rows(only(rnncost.analyze(nn.GRUCell(3, 4), input=torch.zeros(2, 3), hx=torch.zeros(2, 4))))[0] == 2


# Quantised.


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_quantised_layers(kind: Any) -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(kind(3, 4, 2, bidirectional=True)), {kind})
    for batch in (packed_batch(LENGTHS, 3), padded_batch(LENGTHS, 3)):
        reports = [rnncost.analyze(each, batch) for each in (model, nn.Sequential(kind(3, 4, 2, bidirectional=True)))]
        assert reports[0].executed == reports[1].executed
        with rnncost.CostTracker(model, verify=True) as tracker:
            model(batch)
        assert tracker.report.verification is not None
        assert tracker.report.verification.agrees
        assert tracker.report.verification.kernel_macs == reports[0].executed.macs > 0


@pytest.mark.filterwarnings("ignore")
def test_quantised_cells() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.GRUCell(3, 4)), {nn.GRUCell})
    with rnncost.CostTracker(model, verify=True) as tracker:
        model(torch.zeros(2, 3))
    assert rows(only(tracker.report))[0] == 2
    assert tracker.report.verification is not None
    assert tracker.report.verification.agrees


# Parametrised, functional, autocast, meta, dropout.


def test_parametrised_layers() -> None:
    layer = only(rnncost.analyze(weight_norm(nn.GRU(3, 4), "weight_hh_l0"), packed_batch(LENGTHS, 3)))
    assert (layer.name, layer.source) == ("ParametrizedGRU", "module")
    assert rows(layer) == (14, 20, 14)


def test_functional_call_autocast_and_meta() -> None:
    model, batch = Holder(nn.GRU(3, 4)), padded_batch(LENGTHS, 3)
    weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    with rnncost.CostTracker(model) as tracker:
        functional_call(model, weights, (batch,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(batch)
    assert only(tracker.report).tally.calls == 2
    meta = Holder(nn.LSTM(3, 4)).to("meta")
    assert rows(only(rnncost.analyze(meta, batch.to("meta"))))[0] == 20


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_dropout_between_layers(probability: float, training: bool, packed: bool) -> None:
    spec = RnnSpec(kind="gru", input_size=3, hidden_size=4, num_layers=3, bidirectional=True)
    module = build_module(spec, dropout=probability).train(training)
    batch: Any = (packed_batch if packed else padded_batch)(LENGTHS, 3)
    with rnncost.CostTracker(module, backward=True) as tracker, dispatched() as ops:
        output, _ = module(batch)
        forward, ops.count = ops.count, OpCount()
        data = output.data if packed else output
        torch.autograd.backward([data], [torch.empty_like(data)])
    assert same_operations(tracker.report.forward.executed, forward)
    assert same_operations(tracker.report.backward.executed, ops.count)


def test_a_batch_without_sequences() -> None:
    module = nn.GRU(3, 4)
    with rnncost.CostTracker(module, backward=True) as tracker:
        module(torch.zeros(4, 0, 3))[0].sum().backward()
    assert (only(tracker.report).tally.calls, tracker.report.executed.mults) == (1, 0)


# Compiled, traced, exported.


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiled_models(before: bool, backend: str) -> None:
    model, batch = Holder(nn.GRU(3, 4)), padded_batch(LENGTHS, 3)
    compiled: Any = torch.compile(model, backend=backend) if before else None
    with rnncost.CostTracker(model if compiled is None else compiled) as tracker:
        run = torch.compile(model, backend=backend) if compiled is None else compiled
        run(batch)
        run(batch)
    layer = only(tracker.report)
    assert (layer.name, layer.tally.calls) == ("rnn", 2)
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
def test_tracing_counts_what_ran_and_keeps_integers() -> None:
    model, batch = Holder(nn.GRU(3, 4)), padded_batch(LENGTHS, 3)
    with rnncost.CostTracker(model) as tracker:
        model(batch)
        traced: Any = torch.jit.trace(model, batch, check_trace=False)  # type: ignore[no-untyped-call]
        before = tracker.report.executed
        traced(batch)
    assert before == tracker.report.executed
    assert type(before.mults) is int
    assert only(tracker.report).tally.calls == 2
    # The trace has no trace of rnncost: other sizes run.
    assert traced(torch.zeros(7, 3, 3)).shape == (7, 3, 4)
    with pytest.warns(UncountedModuleWarning, match="rnn"):
        assert rnncost.analyze(traced, batch).partial


@pytest.mark.parametrize("strict", [False, True])
def test_export_runs_nothing_and_counts_nothing_symbolic(strict: bool) -> None:
    if strict and not hasattr(torch.compiler, "is_exporting"):
        pytest.skip("this torch does not tell that it exports")
    model = Holder(nn.GRU(3, 4))
    batch = padded_batch(LENGTHS, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rnncost.CostTracker(model) as tracker:
            model(batch)
            dynamic = {"x": {1: torch.export.Dim("B", min=2, max=9)}}
            torch.export.export(model, (batch,), dynamic_shapes=dynamic, strict=strict)
    assert type(tracker.report.executed.mults) is int
    str(tracker.report)
