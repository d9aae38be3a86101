"""What a model would cost on given lengths: read off its sizes, nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
import torch
from torch import nn

from rnncost.counting.dataset import Dataset
from rnncost.counting.kinds import BackwardKind, CallKind
from rnncost.counting.spec import CustomSpec, RnnSpec, Spec
from rnncost.counting.tally import BackwardTally, CallTally, Tally, merge_backwards
from rnncost.errors import LengthsError, RnncostError, UnsupportedModuleError
from rnncost.reporting.layer import LayerCost, Uncounted
from rnncost.reporting.report import CostReport, new_versions
from rnncost.tracking import stock
from rnncost.tracking.fitting import is_recurrent, uncovered
from rnncost.tracking.naming import without_compile_prefix
from rnncost.tracking.readers import READER_BACKWARD, Reader, find_reader, read_spec
from rnncost.tracking.scripted import find_scripted
from rnncost.tracking.wants import cell_weights, dropout_mults, frozen_weights

Layout = Literal["packed", "padded"]
_OWN_FORWARD = "its forward is its own, so what it runs is not known without running it; track it instead"


def estimate(
    model_or_spec: nn.Module | RnnSpec | str,
    lengths: Iterable[Any],
    *,
    layout: Layout = "packed",
    batch_size: int | None = None,
    backward: bool = False,
    padded_length: int | None = None,
    input_grad: bool | Mapping[str, bool] | None = None,
) -> CostReport:
    """Costs of a model's recurrent modules on given lengths, exactly as a tracker would count them.

    Nothing is run and no weight is touched, so a model on the meta device will do. Every
    recurrent module is taken to be called once a batch, with all its sequences and without a
    given state; a cell once a step, with the state of the step before. Backward passes are taken
    to come through the output alone (a cell's: its states) and to reach every weight that
    requires grad; batches to be sorted. Modules of which more must be known are named as uncounted.

    Args:
        model_or_spec: a module, an ``RnnSpec``, or a spec as text such as ``lstm:12x64x2:bi``
            (grammar: :meth:`RnnSpec.parse`).
        lengths: steps of each sequence: of one batch, or with ``batch_size`` of a whole data set
            in its order.
        layout: ``packed``, or ``padded`` to the longest of each batch.
        batch_size: sequences a batch; the last may have fewer.
        backward: count a backward of each call too.
        padded_length: width that every batch is padded to, where more than its longest.
        input_grad: whether the input of the modules requires grad, as it does above a trained
            embedding; for all of them, or by name. Left out: not for the first module, and for the
            others if a weight of an earlier one requires grad.

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
        return _report([batches.layer(str(spec).split()[0], spec, dropout=0.0, frozen=())])
    if isinstance(model_or_spec, nn.Module):
        uncounted: list[Uncounted] = list(find_scripted(model_or_spec))
        return _report([*_layers(model_or_spec, batches, uncounted)], uncounted)
    raise UnsupportedModuleError(
        f"{type(model_or_spec).__name__} is neither a torch.nn.Module, an RnnSpec nor text such as 'lstm:12x64'"
    )


class _Batches:
    """The batches of an estimate, and what is asked of it."""

    def __init__(
        self, dataset: Dataset, *, packed: bool, backward: bool, input_grad: bool | Mapping[str, bool] | None
    ) -> None:
        self._dataset = dataset
        self._tally = dataset.tally()
        self._packed = packed
        self.backward = backward
        self._input_grad = input_grad
        self._trained_below = False

    def layer(self, name: str, spec: Spec, *, dropout: float, frozen: tuple[str, ...] | None) -> LayerCost:
        """The cost of one module called once on each batch; ``frozen`` is ``None`` where nothing can be trained."""
        mults = dropout_mults(dropout)
        calls: tuple[CallTally, ...]
        backwards: tuple[BackwardTally, ...] = ()
        if isinstance(spec, RnnSpec) and spec.cell:
            calls = (CallTally(kind=CallKind(packed=False), forward=_cell_calls(self._tally)),)
        else:
            calls = (CallTally(kind=CallKind(packed=self._packed, dropout_mults=mults), forward=self._tally),)
        if self.backward and isinstance(spec, RnnSpec) and frozen is not None:
            input_grad = self._wants_input_grad(name)
            trained = _any_trained(spec, frozen)
            self._trained_below |= trained
            if input_grad or trained:
                kind = BackwardKind(packed=self._packed, dropout_mults=mults, input_grad=input_grad, frozen=frozen)
                backwards = self._backwards(spec, kind)
        samples = self._dataset.sample(seed=name)
        return LayerCost(
            name=name, spec=spec, source="estimate", calls=calls, backward_calls=backwards, samples=samples
        )

    def _wants_input_grad(self, name: str) -> bool:
        if isinstance(self._input_grad, Mapping):
            return self._input_grad.get(name, False)
        return self._trained_below if self._input_grad is None else self._input_grad

    def _backwards(self, spec: RnnSpec, kind: BackwardKind) -> tuple[BackwardTally, ...]:
        if not spec.cell:
            passes = Tally(passes=self._tally.calls)
            return (BackwardTally(kind=kind, backward=self._tally + passes),)
        kind = msgspec.structs.replace(
            kind, packed=False, through_output=False, through_state=True, through_cell=spec.kind == "lstm"
        )
        later = msgspec.structs.replace(kind, state_grad=True, cell_grad=spec.kind == "lstm")
        batches, first_rows = self._tally.calls, self._tally.first_rows
        first = Tally(passes=batches) + _one_step_calls(batches, first_rows)
        rest = _one_step_calls(self._tally.steps - batches, self._tally.rows - first_rows)
        return merge_backwards([BackwardTally(kind=kind, backward=first), BackwardTally(kind=later, backward=rest)])


def _layers(model: nn.Module, batches: _Batches, uncounted: list[Uncounted]) -> Iterator[LayerCost]:
    for path, module in uncovered(model):
        if not is_recurrent(module):
            continue
        name = without_compile_prefix(path) or type(module).__name__
        reader = find_reader(module)
        spec, reason = _spec(module, reader)
        if isinstance(spec, CustomSpec) and batches.backward:
            reason = READER_BACKWARD
        if reason:
            uncounted.append(Uncounted(name=name, type_name=type(module).__name__, reason=reason))
        if spec is not None:
            dropout = getattr(module, "dropout", 0.0) if module.training and _layer_count(spec) > 1 else 0.0
            frozen = None if reader is not None else _frozen(module, spec)
            yield batches.layer(name, spec, dropout=0.0 if reader is not None else dropout, frozen=frozen)


def _spec(module: nn.Module, reader: Reader | None) -> tuple[Spec | None, str]:
    """What is known of a module without running it, and what is not."""
    if reader is not None:
        try:
            return read_spec(reader, module), ""
        except RnncostError as error:
            return None, str(error)
    if stock.is_stock_layer(module) or stock.is_stock_cell(module):
        return stock.read_spec(module), ""
    return None, _OWN_FORWARD


def _layer_count(spec: Spec) -> int:
    return spec.num_layers if isinstance(spec, RnnSpec) else 1


def _frozen(module: nn.Module, spec: Spec) -> tuple[str, ...] | None:
    """Names of frozen weights; ``None`` for quantised modules, which have none to train."""
    if isinstance(module, nn.RNNBase) and isinstance(spec, RnnSpec):
        weights: Any = module._flat_weights
        return frozen_weights(spec, weights)
    return (
        frozen_weights(spec, cell_weights(module))
        if isinstance(module, nn.RNNCellBase) and isinstance(spec, RnnSpec)
        else None
    )


def _any_trained(spec: RnnSpec, frozen: tuple[str, ...]) -> bool:
    parts = 2 + 2 * spec.bias + (spec.proj_size > 0)
    return len(frozen) < parts * spec.num_layers * spec.directions


def _cell_calls(tally: Tally) -> Tally:
    """The same batches as loops over their steps, each step one call of a cell."""
    return _one_step_calls(tally.steps, tally.rows)


def _one_step_calls(calls: int, rows: int) -> Tally:
    """Sums of calls of one step: what a tracker sees of a cell, which knows of no padding."""
    sums = dict.fromkeys(("sequences", "rows", "padded_rows", "first_rows", "last_rows", "step_rows"), rows)
    unknown: dict[str, Any] = {
        f"packed_{name}": None for name in ("rows", "steps", "last_rows", "step_rows", "shrink_rows", "slice_rows")
    }
    return Tally(calls=calls, steps=calls, padded_steps=calls, **sums, **unknown)


def _report(layers: list[LayerCost], uncounted: Iterable[Uncounted] = ()) -> CostReport:
    return CostReport(
        layers=tuple(layers),
        uncounted=tuple(dict.fromkeys(uncounted)),
        versions=new_versions(torch=str(torch.__version__)),
    )
