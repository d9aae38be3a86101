"""Reports made of plain records, without torch."""

from __future__ import annotations

from collections.abc import Sequence

from rnncost.counting import BatchShape, RnnSpec, Tally
from rnncost.counting.kinds import CallKind
from rnncost.counting.sample import BatchSample
from rnncost.counting.tally import CallTally
from rnncost.reporting import CostReport, LayerCost, Uncounted

LSTM = RnnSpec(kind="lstm", input_size=2, hidden_size=3)
GRU = RnnSpec(kind="gru", input_size=2, hidden_size=3)
SCRIPTED = Uncounted(name="vad.rnn", type_name="LSTM", reason="scripted")


def packed_layer(name: str, lengths: Sequence[int], spec: RnnSpec = LSTM) -> LayerCost:
    shape = BatchShape.from_lengths(lengths)
    call = CallTally(kind=CallKind(packed=True), forward=Tally.of(shape))
    return LayerCost(name=name, spec=spec, calls=(call,), samples=(BatchSample(priority=sum(lengths), shape=shape),))


def padded_layer(name: str, sequences: int, steps: int, lengths: Sequence[int] | None = None) -> LayerCost:
    shape = BatchShape.rectangle(sequences=sequences, steps=steps, lengths=lengths)
    call = CallTally(kind=CallKind(packed=False), forward=Tally.of(shape))
    return LayerCost(name=name, spec=GRU, calls=(call,))


def report(*layers: LayerCost, uncounted: tuple[Uncounted, ...] = ()) -> CostReport:
    return CostReport(layers=layers, uncounted=uncounted, versions={"rnncost": ("0.1.0",), "torch": ("2.13.0",)})
