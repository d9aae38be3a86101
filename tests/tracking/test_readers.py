"""Readers for modules of one's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rnncost
from rnncost.counting import BatchShape, CustomSpec, OpCount, RnnSpec, Tally, formulas
from rnncost.errors import UncountedModuleWarning, UnsupportedModuleError
from rnncost.examples import minimal_gru as minimal_gru_example
from tests.builders import padded_batch
from tests.oracle import dispatched, same_operations
from tests.tracking.reading import only, rows

LENGTHS = (5, 4, 4, 1)


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
    with pytest.warns(UncountedModuleWarning, match=message):  # the model can be tracked; the layer is named
        assert rnncost.analyze(Refused(), torch.zeros(1)).partial
