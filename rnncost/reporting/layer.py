"""What a report says of one recurrent module."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Literal

import msgspec

from rnncost.counting import formulas
from rnncost.counting.opcount import OpCount
from rnncost.counting.sample import BatchSample, keep_lowest
from rnncost.counting.spec import RnnSpec, Spec
from rnncost.counting.tally import BackwardTally, CallTally, Tally, merge_backwards, merge_calls
from rnncost.reporting.costs import Costs, CostView
from rnncost.reporting.timing import LayoutTiming, RunTime, TimingConditions, advice
from rnncost.units import printable

Source = Literal["module", "subclass", "reader", "kernel", "estimate"]


class Uncounted(msgspec.Struct, frozen=True, kw_only=True):
    """Recurrent work that could not be counted.

    Attributes:
        name: dotted name of the module.
        type_name: name of its class.
        reason: why it could not be counted, and what to do.
    """

    name: str
    type_name: str
    reason: str

    def __str__(self) -> str:
        return f"{printable(self.name)} ({printable(self.type_name)}) is not counted: {printable(self.reason)}"


class LayerCost(CostView, frozen=True, kw_only=True):
    """One recurrent module and the calls it received. Every count is derived from their sums.

    Attributes:
        name: dotted name in the tracked model; the class name where the model is itself recurrent.
        spec: sizes and options of the module.
        source: what was counted: a module's own calls; the kernels inside a ``subclass`` with a
            forward of its own; what a registered ``reader`` states; a ``kernel`` outside any
            module; or an ``estimate``, for which nothing ran.
        calls: sums over its forward calls, one tally for each kind of call.
        backward_calls: sums over the calls whose backward ran.
        samples: a bounded random sample of the batches it saw.
        run_time: what its calls took in the run itself, where that was timed.
        timings: what its layouts took, where they were timed; the first one where reports are merged.
        conditions: under what conditions.
        untimed: why it was not timed, where that was asked for.
        best_layout: the fastest layout whose results are those of a packed run.
    """

    name: str
    spec: Spec
    source: Source = "module"
    calls: tuple[CallTally, ...] = ()
    backward_calls: tuple[BackwardTally, ...] = ()
    samples: tuple[BatchSample, ...] = ()
    run_time: RunTime | None = None
    timings: tuple[LayoutTiming, ...] = ()
    conditions: TimingConditions | None = None
    best_layout: str | None = None
    untimed: str = ""

    @property
    def advice(self) -> str | None:
        """What to do, in sentences made of its timings; ``None`` where it was not timed."""
        if self.conditions is None:
            return None
        cell_state = isinstance(self.spec, RnnSpec) and self.spec.kind == "lstm"
        return advice(self.timings, self.conditions, self.best_layout, cell_state=cell_state)

    @property
    def is_cell(self) -> bool:
        """Whether it is an ``RNNCell``, ``GRUCell`` or ``LSTMCell``, which sees one step at a time and no padding."""
        return isinstance(self.spec, RnnSpec) and self.spec.cell

    @property
    def tally(self) -> Tally:
        """Sums over all calls, whatever their kind."""
        return sum((call.forward for call in self.calls), start=Tally())

    @property
    def forward(self) -> Costs:
        """Operations of the forward passes."""
        return sum((_forward_costs(self.spec, call) for call in self.calls), start=Costs())

    @property
    def backward(self) -> Costs:
        """Operations of the backward passes that ran, where they were watched."""
        if not isinstance(self.spec, RnnSpec):
            return Costs()
        return sum((_backward_costs(self.spec, call) for call in self.backward_calls), start=Costs())

    @property
    def recomputed_calls(self) -> int:
        """Forward calls that ran inside a backward pass, as activation checkpointing has it."""
        return sum(call.forward.calls for call in self.calls if call.kind.recomputed)

    @property
    def slicing_adds(self) -> int:
        """Additions that only packing causes in a backward: autograd sums all rows at each step."""
        if not isinstance(self.spec, RnnSpec):
            return 0
        return sum(formulas.slicing_adds(self.spec, call.kind, call.backward) for call in self.backward_calls)

    def merge(self, other: LayerCost) -> LayerCost:
        """The same layer over both runs.

        Raises:
            ValueError: if the two are not the same layer.
        """
        if (self.name, self.spec) != (other.name, other.spec):
            raise ValueError(f"{self.name} ({self.spec}) and {other.name} ({other.spec}) are different layers")
        return msgspec.structs.replace(
            self,
            calls=merge_calls(self.calls + other.calls),
            backward_calls=merge_backwards(self.backward_calls + other.backward_calls),
            samples=keep_lowest(self.samples + other.samples),
            run_time=total_time((self.run_time, other.run_time)),
        )


def total_time(times: Iterable[RunTime | None]) -> RunTime | None:
    """The sum of what was timed; ``None`` if nothing was."""
    timed = [each for each in times if each is not None]
    return functools.reduce(operator.add, timed) if timed else None


def _forward_costs(spec: Spec, call: CallTally) -> Costs:
    def count(tally: Tally) -> OpCount:
        return formulas.forward(spec, tally, dropout_mults=call.kind.dropout_mults)

    packed = call.forward.as_packed()
    return Costs(
        executed=count(call.forward),
        padded=count(call.forward.as_padded()),
        packed=None if packed is None else count(packed),
    )


def _backward_costs(spec: RnnSpec, call: BackwardTally) -> Costs:
    packed = call.backward.as_packed()
    as_padded = msgspec.structs.replace(call.kind, packed=False, unsorted=False)
    as_packed = msgspec.structs.replace(call.kind, packed=True)
    return Costs(
        executed=formulas.backward(spec, call.kind, call.backward),
        padded=formulas.backward(spec, as_padded, call.backward.as_padded()),
        packed=None if packed is None else formulas.backward(spec, as_packed, packed),
    )
