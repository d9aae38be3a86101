"""What a model would cost on given lengths: read off its sizes, nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
import torch
from torch import nn

from rnncost.counting.dataset import Dataset
from rnncost.counting.kinds import BackwardKind, CallKind
from rnncost.counting.spec import CustomSpec, RnnSpec, Spec
from rnncost.counting.tally import BackwardTally, CallTally, Tally
from rnncost.errors import LengthsError, UnsupportedModuleError
from rnncost.reporting.layer import LayerCost, Uncounted
from rnncost.reporting.report import CostReport, new_versions
from rnncost.tracking import stock
from rnncost.tracking.fitting import is_recurrent
from rnncost.tracking.naming import without_compile_prefix
from rnncost.tracking.readers import find_reader
from rnncost.tracking.scripted import find_scripted
from rnncost.tracking.wants import call_kind, frozen_weights

Layout = Literal["packed", "padded"]
_NO_SIZES = "its sizes are not known without running it; track it instead"
_READER_BACKWARD = "its backward: a reader describes the forward pass alone"


def estimate(
    model_or_spec: nn.Module | RnnSpec | str,
    lengths: Iterable[Any],
    *,
    layout: Layout = "packed",
    batch_size: int | None = None,
    backward: bool = False,
    padded_length: int | None = None,
    input_grad: bool = False,
) -> CostReport:
    """Costs of a model's recurrent modules on given lengths, exactly as a tracker would count them.

    Nothing is run and no weight is touched, so a model on the meta device will do. Every
    recurrent module is taken to be called once a batch, with all its sequences; a cell once a
    step. Backward passes are taken to come through the output alone and to reach every weight
    that requires grad; no state is given, and batches are sorted.

    Args:
        model_or_spec: a module, an ``RnnSpec``, or a spec as text such as ``lstm:12x64x2:bi``
            (grammar: :meth:`RnnSpec.parse`).
        lengths: steps of each sequence: of one batch, or with ``batch_size`` of a whole data set
            in its order.
        layout: ``packed``, or ``padded`` to the longest of each batch.
        batch_size: sequences a batch; the last may have fewer.
        backward: count a backward of each call too.
        padded_length: width that every batch is padded to, where more than its longest.
        input_grad: the input of the modules requires grad, as it does above a trained embedding.

    Raises:
        LengthsError: for lengths, sizes or a layout that cannot be.
        SpecError: for text that is no spec.
        UnsupportedModuleError: if ``model_or_spec`` is none of the three.
    """
    if layout not in ("packed", "padded"):
        raise LengthsError(f"layout is {layout!r}; use 'packed' or 'padded'")
    packed = layout == "packed"
    dataset = Dataset(lengths, batch_size=batch_size, packed=packed, padded_length=padded_length)
    batches = _Batches(dataset, packed=packed, backward=backward, input_grad=input_grad)
    if isinstance(model_or_spec, str):
        model_or_spec = RnnSpec.parse(model_or_spec)
    if isinstance(model_or_spec, RnnSpec):
        spec = model_or_spec
        return _report([batches.layer(str(spec).split()[0], spec, dropout_mults=0, frozen=())])
    if isinstance(model_or_spec, nn.Module):
        uncounted: list[Uncounted] = list(find_scripted(model_or_spec))
        return _report([*_layers(model_or_spec, batches, uncounted)], uncounted)
    raise UnsupportedModuleError(
        f"{type(model_or_spec).__name__} is neither a torch.nn.Module, an RnnSpec nor text such as 'lstm:12x64'"
    )


class _Batches:
    """The batches of an estimate, and what is asked of it."""

    def __init__(self, dataset: Dataset, *, packed: bool, backward: bool, input_grad: bool) -> None:
        self._dataset = dataset
        self._tally = dataset.tally()
        self.packed = packed
        self.backward = backward
        self._input_grad = input_grad

    def layer(self, name: str, spec: Spec, *, dropout_mults: int, frozen: tuple[str, ...]) -> LayerCost:
        """The cost of one module called once on each batch."""
        tally = self._tally
        if isinstance(spec, RnnSpec) and spec.cell:
            tally = _as_cell_calls(tally)
        forward = CallTally(kind=CallKind(packed=self.packed, dropout_mults=dropout_mults), forward=tally)
        backwards: tuple[BackwardTally, ...] = ()
        if self.backward and isinstance(spec, RnnSpec) and (self._input_grad or _any_trained(spec, frozen)):
            kind = BackwardKind(
                packed=self.packed, dropout_mults=dropout_mults, input_grad=self._input_grad, frozen=frozen
            )
            passes = Tally(passes=tally.calls)
            backwards = (BackwardTally(kind=kind, backward=tally + passes),)
        return LayerCost(
            name=name,
            spec=spec,
            source="estimate",
            calls=(forward,),
            backward_calls=backwards,
            samples=self._dataset.sample(seed=name),
        )


def _layers(model: nn.Module, batches: _Batches, uncounted: list[Uncounted]) -> Iterator[LayerCost]:
    covered: list[str] = []
    for path, module in model.named_modules():
        if not is_recurrent(module) or any(path.startswith(f"{outer}.") or not outer for outer in covered):
            continue
        name = without_compile_prefix(path) or type(module).__name__
        reader = find_reader(module)
        if reader is not None:
            covered.append(path)
        spec: Spec | None = stock.read_spec(module) if reader is None else reader.spec(module)
        if spec is None:
            uncounted.append(Uncounted(name=name, type_name=type(module).__name__, reason=_NO_SIZES))
            continue
        if isinstance(spec, CustomSpec) and batches.backward:
            uncounted.append(Uncounted(name=name, type_name=type(module).__name__, reason=_READER_BACKWARD))
        dropout = getattr(module, "dropout", 0.0) if module.training and _layer_count(spec) > 1 else 0.0
        called = call_kind(packed=batches.packed, dropout=dropout if isinstance(dropout, float) else 0.0)
        yield batches.layer(name, spec, dropout_mults=called.dropout_mults, frozen=_frozen(module, spec))


def _layer_count(spec: Spec) -> int:
    return spec.num_layers if isinstance(spec, RnnSpec) else 1


def _frozen(module: nn.Module, spec: Spec) -> tuple[str, ...]:
    if not isinstance(spec, RnnSpec):
        return ()
    if spec.cell:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return frozen_weights(
            spec, [getattr(module, name) for name in names if getattr(module, name, None) is not None]
        )
    weights: Any = getattr(module, "_flat_weights", ())
    return frozen_weights(spec, weights)


def _any_trained(spec: RnnSpec, frozen: tuple[str, ...]) -> bool:
    parts = 2 + 2 * spec.bias + (spec.proj_size > 0)
    return len(frozen) < parts * spec.num_layers * spec.directions


def _as_cell_calls(tally: Tally) -> Tally:
    """The same batches as loops over their steps, each step one call of a cell."""
    return msgspec.structs.replace(
        tally,
        calls=tally.steps,
        sequences=tally.rows,
        first_rows=tally.rows,
        last_rows=tally.rows,
        step_rows=tally.rows,
        shrink_rows=0,
        slice_rows=0,
    )


def _report(layers: list[LayerCost], uncounted: Iterable[Uncounted] = ()) -> CostReport:
    return CostReport(
        layers=tuple(layers),
        uncounted=tuple(dict.fromkeys(uncounted)),
        versions=new_versions(torch=str(torch.__version__)),
    )
