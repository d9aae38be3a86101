"""Two reports compared, as plain data."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from pathlib import Path
from typing import Literal, TextIO

import msgspec

from rnncost.counting.spec import Spec
from rnncost.reporting.costs import CostView
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.thresholds import METRICS, NO_LIMIT
from rnncost.units import format_count, format_fraction, printable

Status = Literal["same", "changed", "added", "removed", "renamed"]
_SHOWN_LINES = 12


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one layer or one report executed, in the numbers that are compared.

    Attributes:
        calls: forward calls.
        backward_calls: calls whose backward ran, where that was watched.
        sequences: ΣB of the forward calls.
        rows: rows that the forward calls executed.
        macs: MACs executed; these and all other operations forward and backward together.
        mults: multiplications executed.
        adds: additions executed.
        activations: sigmoid, tanh and relu evaluations.
        wasted: multiplications on padding, executed less packed; ``None`` where lengths are unknown.
    """

    calls: int = 0
    backward_calls: int = 0
    sequences: int = 0
    rows: int = 0
    macs: int = 0
    mults: int = 0
    adds: int = 0
    activations: int = 0
    wasted: int | None = 0

    @classmethod
    def of(cls, view: CostView, layers: tuple[LayerCost, ...]) -> Figures:
        """The figures of a layer or a report, which consists of these ``layers``."""
        costs = view.costs
        tallies = [layer.tally for layer in layers]
        return cls(
            calls=sum(tally.calls for tally in tallies),
            backward_calls=sum(call.backward.calls for layer in layers for call in layer.backward_calls),
            sequences=sum(tally.sequences for tally in tallies),
            rows=sum(tally.rows for tally in tallies),
            macs=costs.executed.macs,
            mults=costs.executed.mults,
            adds=costs.executed.adds,
            activations=costs.executed.activations,
            wasted=None if costs.wasted is None else costs.wasted.mults,
        )

    @property
    def flops(self) -> int:
        """Two operations a MAC."""
        return 2 * self.macs

    def of_metric(self, metric: str) -> int | None:
        """The figure that a threshold on ``metric`` holds."""
        figure: int | None = getattr(self, metric)
        return figure


class LayerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of one report, as far as it is compared.

    Attributes:
        name: its dotted name.
        spec: its sizes.
        figures: what it executed.
        work: what is equal where two layers did the same on the same batches.
    """

    name: str
    spec: Spec
    figures: Figures
    work: Hashable

    @classmethod
    def of(cls, layer: LayerCost) -> LayerFigures:
        """The figures of a layer of a report."""
        return cls(
            name=layer.name,
            spec=layer.spec,
            figures=Figures.of(layer, (layer,)),
            work=(layer.calls, layer.backward_calls),
        )


class LayerChange(msgspec.Struct, frozen=True, kw_only=True):
    """One layer in both reports.

    Attributes:
        status: ``same`` in all figures, ``changed`` in figures or spec, ``added``, ``removed``, or ``renamed``.
        name: its name in the current report; of a removed layer that in the baseline.
        spec: its sizes there.
        old_name: its name in the baseline, where it was renamed.
        old_spec: its sizes in the baseline, where they differ.
        baseline: what it executed then; ``None`` for an added layer.
        current: what it executes now; ``None`` for a removed layer.
    """

    status: Status
    name: str
    spec: Spec
    old_name: str | None = None
    old_spec: Spec | None = None
    baseline: Figures | None = None
    current: Figures | None = None

    @classmethod
    def between(cls, before: LayerFigures | None, after: LayerFigures | None) -> LayerChange:
        """What became of a layer. One of the two may be missing."""
        if before is None:
            assert after is not None
            return cls(status="added", name=after.name, spec=after.spec, current=after.figures)
        if after is None:
            return cls(status="removed", name=before.name, spec=before.spec, baseline=before.figures)
        renamed, respecified = before.name != after.name, before.spec != after.spec
        same = not respecified and before.figures == after.figures
        return cls(
            status="renamed" if renamed else "same" if same else "changed",
            name=after.name,
            spec=after.spec,
            old_name=before.name if renamed else None,
            old_spec=before.spec if respecified and not renamed else None,
            baseline=before.figures,
            current=after.figures,
        )

    @property
    def label(self) -> str:
        """Name and spec on one line, with what they were before."""
        return f"{self.label_of_name} ({self.label_of_spec})"

    @property
    def label_of_name(self) -> str:
        """The name, after the old one where it was renamed."""
        name = printable(self.name)
        return name if self.old_name is None else f"{printable(self.old_name)} -> {name}"

    @property
    def label_of_spec(self) -> str:
        """The spec, after the old one where it differs."""
        spec = printable(str(self.spec))
        return spec if self.old_spec is None else f"{printable(str(self.old_spec))} -> {spec}"


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that is not kept, or that cannot be said to be.

    Attributes:
        metric: the figure held to the limit; ``None`` where no figure can be trusted.
        limit: how much it may grow, as it was written.
        layer: the layer that grew; ``None`` for the total.
        baseline: its figure in the baseline; ``None`` if unknown.
        current: its figure now; ``None`` if unknown.
        reason: why nothing is guaranteed, where no figure says so.
    """

    metric: str | None = None
    limit: str | None = None
    layer: str | None = None
    baseline: int | None = None
    current: int | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.metric is None:
            return self.reason
        who = "in total" if self.layer is None else self.layer
        figures = f"{exact(self.baseline)} -> {exact(self.current)} {METRICS[self.metric]}"
        growth = "cannot be told" if None in (self.baseline, self.current) else growth_of(self.baseline, self.current)
        return f"{who}: {figures} ({growth}), limit {self.limit}"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from a baseline to a current report; see :func:`rnncost.compare`.

    Attributes:
        layers: each layer, in the order of the current report; those removed come last.
        baseline: totals of the baseline.
        current: totals of the current report.
        fail_on: the limits, as they were given; ``none`` for no limit.
        regressions: limits that are not kept.
        notes: what a reader of the figures must know.
        forward_only: whether only forward passes are compared, since the current report has no backward.
        partial: whether work is missing from the totals of either report.
    """

    layers: tuple[LayerChange, ...] = ()
    baseline: Figures = Figures()
    current: Figures = Figures()
    fail_on: str
    regressions: tuple[Regression, ...] = ()
    notes: tuple[str, ...] = ()
    forward_only: bool = False
    partial: bool = False

    @property
    def regressed(self) -> bool:
        """Whether any limit is not kept."""
        return bool(self.regressions)

    @property
    def verdict(self) -> str:
        """The outcome in a few words."""
        if self.fail_on == NO_LIMIT:
            return "Compared, held to no limit"
        return f"REGRESSION, limit {self.fail_on}" if self.regressed else f"No regression, limit {self.fail_on}"

    @property
    def summary(self) -> str:
        """The total and how many layers changed, as one sentence."""
        statuses = [layer.status for layer in self.layers]
        counted = [
            f"{statuses.count(name):,} {name}"
            for name in ("changed", "added", "removed", "renamed", "same")
            if name in statuses
        ]
        passes = "forward mults" if self.forward_only else "mults"
        growth = growth_of(self.baseline.mults, self.current.mults)
        figures = f"{exact(self.baseline.mults)} -> {exact(self.current.mults)} {passes} ({growth})"
        partial = "PARTIAL: " if self.partial else ""
        return f"{partial}{figures}; layers: {', '.join(counted) or 'none'}."

    @property
    def message(self) -> str:
        """The regressions on one screen: the limit, the figures, the layers; empty if there are none."""
        if not self.regressed:
            return ""
        lines = [str(each) for each in self.regressions]
        if any(each.layer is None and each.metric for each in self.regressions):
            added = [layer for layer in self.layers if layer.status == "added"]
            lines += [f"added: {layer.label}, {layer.current.mults:,} mults" for layer in added if layer.current]
        more = [f"and {len(lines) - _SHOWN_LINES:,} more"] if len(lines) > _SHOWN_LINES else []
        return "\n  ".join([f"{self.verdict}: {self.summary}", *lines[:_SHOWN_LINES], *more])

    def print(self, file: TextIO | None = None) -> None:
        """Prints the table to ``file``, by default standard output."""
        from rnncost.reporting.renderers.comparison.text import print_comparison

        print_comparison(self, file)

    def save(self, path: str | Path) -> None:
        """Writes the comparison, in the format that the suffix of ``path`` names.

        Args:
            path: ``.txt``, ``.md``, ``.json`` or ``.html``.

        Raises:
            ReportFormatError: for any other suffix; nothing is written then.
        """
        from rnncost.reporting.renderers.comparison import comparison_renderer_for_path
        from rnncost.reporting.storage import write_file

        write_file(path, comparison_renderer_for_path(path).render(self))

    def __str__(self) -> str:
        return self.message or f"{self.verdict}: {self.summary}"


def exact(figure: int | None) -> str:
    """All digits; ``?`` where unknown."""
    return "?" if figure is None else f"{figure:,}"


def growth_of(baseline: int | None, current: int | None) -> str:
    """Growth with its sign, for example ``+14.3 %``; from ten times on as a multiple, ``x12``."""
    if baseline is None or current is None:
        return "?"
    if baseline == current:
        return "0.0 %"
    if baseline <= 0:
        return f"from {baseline:,}"
    if current >= 10 * baseline:
        return f"x{format_count(current // baseline)}"
    change = format_fraction(Fraction(abs(current - baseline), baseline))
    return f"+{change}" if current > baseline else f"-{change}"
