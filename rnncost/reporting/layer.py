"""What a report says of one recurrent module."""

from __future__ import annotations

import msgspec

from rnncost.counting import formulas
from rnncost.counting.sample import BatchSample, keep_lowest
from rnncost.counting.spec import RnnSpec
from rnncost.counting.tally import CallTally, Tally, merge_calls
from rnncost.reporting.costs import Costs, CostView


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
        return f"{self.name} ({self.type_name}) is not counted: {self.reason}"


class LayerCost(CostView, frozen=True, kw_only=True):
    """One recurrent module and the calls it received. Every count is derived from their sums.

    Attributes:
        name: dotted name in the tracked model; the class name where the model is itself recurrent.
        spec: sizes and options of the module.
        calls: sums over its calls, one tally for each kind of call.
        samples: a bounded random sample of the batches it saw.
    """

    name: str
    spec: RnnSpec
    calls: tuple[CallTally, ...] = ()
    samples: tuple[BatchSample, ...] = ()

    @property
    def tally(self) -> Tally:
        """Sums over all calls, whatever their kind."""
        return sum((call.forward for call in self.calls), start=Tally())

    @property
    def costs(self) -> Costs:
        """Operations in the three layouts."""
        return sum((_forward_costs(self.spec, call) for call in self.calls), start=Costs())

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
            samples=keep_lowest(self.samples + other.samples),
        )


def _forward_costs(spec: RnnSpec, call: CallTally) -> Costs:
    packed = call.forward.as_packed()
    return Costs(
        executed=formulas.forward(spec, call.forward),
        padded=formulas.forward(spec, call.forward.as_padded()),
        packed=None if packed is None else formulas.forward(spec, packed),
    )
