"""Every kind of recurrent module: what is counted, or that it is named."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence

import rnncost
from rnncost.counting import BatchShape, CustomSpec, OpCount, RnnSpec, Tally, formulas
from rnncost.errors import UncountedModuleWarning, UnsupportedModuleError
from rnncost.examples import minimal_gru as minimal_gru_example
from tests.builders import build_module, packed_batch, padded_batch
from tests.oracle import dispatched, same_operations
from tests.tracking.models import Holder

LENGTHS = (5, 4, 4, 1)


def rows(layer: rnncost.LayerCost) -> tuple[int, int, int | None]:
    return layer.tally.rows, layer.tally.padded_rows, layer.tally.packed_rows


def only(report: rnncost.CostReport) -> rnncost.LayerCost:
    assert len(report.layers) == 1, report.layers
    return report.layers[0]


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


# Subclasses.


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


# Readers.


@pytest.fixture
def minimal_gru() -> nn.Module:
    return minimal_gru_example.MinimalGRU(3, 4)


def test_a_module_of_ones_own(minimal_gru: nn.Module) -> None:
    x = padded_batch(LENGTHS, 3)
    with (
        torch.no_grad(),
        rnncost.CostTracker(minimal_gru, lengths=LENGTHS, verify=True) as tracker,
        dispatched() as ops,
    ):
        minimal_gru(x)
    layer = only(tracker.report)
    assert (layer.source, str(layer.spec), rows(layer)) == ("reader", "MinimalGRU 3x4", (20, 20, 14))
    assert same_operations(layer.executed, ops.count)
    assert tracker.report.verification is not None
    assert tracker.report.verification.reader_macs == layer.executed.macs


def test_the_backward_of_a_module_of_ones_own_is_named(minimal_gru: nn.Module) -> None:
    with pytest.warns(UncountedModuleWarning, match="its backward"):  # noqa: SIM117
        with rnncost.CostTracker(minimal_gru, backward=True):
            minimal_gru(padded_batch(LENGTHS, 3)).sum().backward()


def test_readers_that_cannot_be() -> None:
    with pytest.raises(UnsupportedModuleError, match=r"is not a torch\.nn\.Module class"):
        rnncost.register_reader(nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(UnsupportedModuleError, match="has no spec and no shape"):
        rnncost.register_reader(nn.Linear)(int)  # type: ignore[type-var]


def test_formulas_of_a_custom_spec() -> None:
    spec = CustomSpec(title="x", row=OpCount(matmul_mults=3))
    assert formulas.forward(spec, Tally.of(BatchShape.from_lengths([2, 1]))).macs == 9


class Doubling(nn.Module):
    """Holds a layer that is also used elsewhere; a reader states its work."""

    def __init__(self, rnn: nn.GRU) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor) -> Any:
        return self.rnn(x)[0]


@rnncost.register_reader(Doubling)
class DoublingReader:
    def spec(self, module: nn.Module) -> RnnSpec:
        return RnnSpec(kind="gru", input_size=3, hidden_size=3)

    def shape(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> BatchShape:
        return BatchShape.rectangle(sequences=args[0].shape[1], steps=args[0].shape[0])


@pytest.mark.parametrize("whole_process", [False, True])
@pytest.mark.parametrize("verify", [False, True])
def test_a_layer_inside_a_reader_and_outside_is_counted_in_both_places(whole_process: bool, verify: bool) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            shared = nn.GRU(3, 3)
            self.inner = Doubling(shared)
            self.outer = shared

        def forward(self, x: Tensor) -> Any:
            return self.outer(self.inner(x))

    model = Both()
    with rnncost.CostTracker(None if whole_process else model, verify=verify) as tracker:
        model(padded_batch(LENGTHS, 3))
    assert sorted((layer.source, layer.tally.calls) for layer in tracker.report.layers) == [
        ("module", 1),
        ("reader", 1),
    ]
    assert tracker.report.executed == 2 * rnncost.analyze(nn.GRU(3, 3), padded_batch(LENGTHS, 3)).executed


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


class Refused(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        ("x", None, r"Reader\.spec\(\) returned 'x', neither an RnnSpec nor a CustomSpec"),
        (
            RnnSpec(kind="gru", input_size=1, hidden_size=1),
            (2, 5),
            r"Reader\.shape\(\) returned \(2, 5\), not a BatchShape",
        ),
    ],
)
def test_a_reader_that_returns_nonsense_is_named(spec: Any, shape: Any, message: str) -> None:
    class Reader:
        def spec(self, module: nn.Module) -> Any:
            return spec

        def shape(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            return shape

    rnncost.register_reader(Refused)(Reader)
    if shape is None:  # a model with such a layer can be tracked; the layer is named
        with pytest.warns(UncountedModuleWarning, match=message):
            assert rnncost.analyze(Refused(), torch.zeros(1)).partial
    else:
        with pytest.raises(UnsupportedModuleError, match=message):
            rnncost.analyze(Refused(), torch.zeros(1))
