"""What one test executed, in the figures that are saved and compared: plain, and readable in a diff."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rnncost.counting.opcount import OpCount
from rnncost.counting.spec import CustomSpec
from rnncost.reporting.compare import without_backward
from rnncost.reporting.comparison import Figures, LayerFigures
from rnncost.reporting.costs import Costs, share
from rnncost.reporting.layer import LayerCost, Uncounted
from rnncost.reporting.report import CostReport, merge

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class Layouts(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, of the same batches in three layouts; ``packed`` is ``None`` where lengths are unknown."""

    executed: _Natural
    padded: _Natural
    packed: _Natural | None


class LayerWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one layer executed, forward and backward together; rows are those of the forward calls.

    ``forward`` is there where a backward ran: what is left to compare with a test that has lost it.
    """

    name: str
    spec: str
    calls: _Natural
    backward_calls: _Natural
    sequences: _Natural
    activations: _Natural
    rows: Layouts
    macs: Layouts
    mults: Layouts
    adds: Layouts
    forward: Figures | None = None

    @classmethod
    def of(cls, layer: LayerCost, forward: LayerCost) -> LayerWork:
        """The figures of a layer of a report, and of the same layer had its backward not run."""
        figures, tally, costs = Figures.of(layer, (layer,)), layer.tally, layer.costs
        return cls(
            name=layer.name,
            spec=str(layer.spec),
            calls=figures.calls,
            backward_calls=figures.backward_calls,
            sequences=figures.sequences,
            activations=figures.activations,
            rows=Layouts(executed=tally.rows, padded=tally.padded_rows, packed=tally.packed_rows),
            macs=_layouts(costs, "macs"),
            mults=_layouts(costs, "mults"),
            adds=_layouts(costs, "adds"),
            forward=Figures.of(forward, (forward,)) if layer.backward_calls else None,
        )

    @property
    def figures(self) -> Figures:
        """What is compared."""
        return Figures(
            calls=self.calls,
            backward_calls=self.backward_calls,
            sequences=self.sequences,
            rows=self.rows.executed,
            macs=self.macs.executed,
            mults=self.mults.executed,
            adds=self.adds.executed,
            activations=self.activations,
            wasted=None if self.mults.packed is None else self.mults.executed - self.mults.packed,
        )

    def layer_figures(self, *, forward_only: bool = False) -> LayerFigures:
        """The same under the layer's name. A spec that was saved as text has no sizes, only that text."""
        spec = CustomSpec(title=self.spec, row=OpCount())
        figures = self.forward if forward_only and self.forward is not None else self.figures
        return LayerFigures(name=self.name, spec=spec, figures=figures, work=figures)


class UncountedWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, order=True):
    """A module whose work could not be counted. The reason is for people and is not saved: its wording may change."""

    name: str
    type_name: str
    reason: str = ""

    @property
    def uncounted(self) -> Uncounted:
        """As reports have it."""
        return Uncounted(name=self.name, type_name=self.type_name, reason=self.reason)


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """All recurrent work of one test. Layers are sorted by name, so that threads cannot change their order."""

    layers: tuple[LayerWork, ...] = ()
    uncounted: tuple[UncountedWork, ...] = ()

    @classmethod
    def of(cls, report: CostReport) -> Work:
        """The work of a report."""
        merged = merge(report)
        pairs = zip(merged.layers, without_backward(merged).layers, strict=True)
        layers = [LayerWork.of(*pair) for pair in pairs if pair[0].calls or pair[0].backward_calls]
        uncounted = [UncountedWork(**msgspec.structs.asdict(each)) for each in report.uncounted]
        return cls(
            layers=tuple(sorted(layers, key=lambda layer: (layer.name, layer.spec))),
            uncounted=tuple(sorted(uncounted)),
        )

    @classmethod
    def from_json(cls, text: str) -> Work:
        """What :meth:`to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

    def to_json(self) -> str:
        """As text, for another process."""
        return msgspec.json.encode(self).decode()

    @property
    def total(self) -> Figures:
        """The sum over all layers."""
        return _total([layer.figures for layer in self.layers])

    @property
    def forward_total(self) -> Figures:
        """The same of the forward passes alone."""
        return _total([layer.layer_figures(forward_only=True).figures for layer in self.layers])

    @property
    def has_backward(self) -> bool:
        """Whether a backward ran."""
        return any(layer.backward_calls for layer in self.layers)

    @property
    def saved_fraction(self) -> float | None:
        """Saved mults as a share of the padded ones; ``None`` if nothing ran."""
        padded = sum(layer.mults.padded for layer in self.layers)
        return share(padded - self.total.mults, padded)

    @property
    def wasted_fraction(self) -> float | None:
        """Wasted mults as a share of those executed; ``None`` if nothing ran or lengths are unknown."""
        total = self.total
        return None if total.wasted is None else share(total.wasted, total.mults)

    def __bool__(self) -> bool:
        return bool(self.layers or self.uncounted)


def _total(figures: list[Figures]) -> Figures:
    sums = {name: sum(getattr(each, name) for each in figures) for name in Figures.__struct_fields__[:-1]}
    wasted = [each.wasted for each in figures if each.wasted is not None]
    return Figures(**sums, wasted=sum(wasted) if len(wasted) == len(figures) else None)


def _layouts(costs: Costs, name: str) -> Layouts:
    return Layouts(
        executed=getattr(costs.executed, name),
        padded=getattr(costs.padded, name),
        packed=None if costs.packed is None else getattr(costs.packed, name),
    )
