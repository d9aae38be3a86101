"""CostReport: what a run cost, as plain data that is saved, merged and drawn."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

import msgspec

from rnncost._version import __version__
from rnncost.counting.spec import Spec
from rnncost.reporting.contamination import Contamination
from rnncost.reporting.costs import Costs, CostView
from rnncost.reporting.layer import LayerCost, Uncounted, total_time
from rnncost.reporting.timing import RunTime
from rnncost.reporting.verification import Verification
from rnncost.reporting.whole_model import WholeModel
from rnncost.units import format_count, format_fraction

SCHEMA_VERSION = 1


class CostReport(CostView, frozen=True, kw_only=True):
    """The recurrent work of a run, layer by layer. Totals are sums over the layers.

    Attributes:
        layers: the recurrent modules, in the model's own order.
        uncounted: recurrent work that could not be counted; if any, every total is partial.
        verification: how the counts compare with the kernels that ran, where that was watched.
        contaminations: what padding does to results, where that was checked.
        whole_models: what part of the whole model is recurrent, where that was measured.
        versions: releases that took part, by package; more than one where reports were merged.
        commands: the command lines that made the report, where it was made by one.
        schema_version: version of the saved form.
    """

    layers: tuple[LayerCost, ...] = ()
    uncounted: tuple[Uncounted, ...] = ()
    verification: Verification | None = None
    contaminations: tuple[Contamination, ...] = ()
    whole_models: tuple[WholeModel, ...] = ()
    versions: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    commands: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    @property
    def forward(self) -> Costs:
        """Operations of the forward passes of all layers in the three layouts."""
        return sum((layer.forward for layer in self.layers), start=Costs())

    @property
    def backward(self) -> Costs:
        """Operations of the backward passes of all layers that ran, where they were watched."""
        return sum((layer.backward for layer in self.layers), start=Costs())

    @property
    def run_time(self) -> RunTime | None:
        """What the calls of all layers took in the run itself; ``None`` if none was timed."""
        return total_time(layer.run_time for layer in self.layers)

    @property
    def partial(self) -> bool:
        """Whether recurrent work is missing from the totals."""
        return bool(self.uncounted)

    def merge(self, *others: CostReport) -> CostReport:
        """Sums this report and others; see :func:`merge`."""
        return merge(self, *others)

    def save(self, path: str | Path, *, chart: str | None = None) -> None:
        """Writes the report, in the format that the suffix of ``path`` names.

        Args:
            path: ``.txt``, ``.json``, ``.csv``, ``.md`` or ``.html``; ``.svg`` or ``.png`` for one chart.
            chart: the chart of a picture, such as ``occupancy``.

        Raises:
            ReportFormatError: for a suffix without a format, or a chart that the report cannot
                fill; nothing is written then.
        """
        from rnncost.reporting.renderers import renderer_for_path
        from rnncost.reporting.storage import write_file

        write_file(path, renderer_for_path(path, chart=chart).render(self))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from rnncost.reporting.renderers.notebook import NotebookRenderer

        return NotebookRenderer().render(self)

    @classmethod
    def load(cls, path: str | Path) -> CostReport:
        """Reads a report that was saved as JSON.

        Raises:
            ReportFormatError: naming the file and the place, if it is not such a report.
            OSError: if the file cannot be read.
        """
        from rnncost.reporting.storage import load_report

        return load_report(path)

    def print(self, file: TextIO | None = None) -> None:
        """Prints the terminal report to ``file``, by default standard output, as wide as that terminal is."""
        from rnncost.reporting.renderers.text import print_report

        print_report(self, file)

    def __str__(self) -> str:
        costs = self.costs
        fraction = format_fraction(costs.wasted_fraction)
        wasted = "unknown" if costs.wasted is None else f"{fraction} of the executed mults"
        partial = f", partial: {_plural(len(self.uncounted), 'module')} uncounted" if self.partial else ""
        return (
            f"rnncost report: {_plural(len(self.layers), 'recurrent layer')}{partial}\n"
            f"executed {format_count(costs.executed.mults)} mults, {format_count(costs.executed.adds)} adds;"
            f" padded {format_count(costs.padded.mults)} mults, {format_count(costs.padded.adds)} adds\n"
            f"saved {format_fraction(costs.saved_fraction)} of the padded mults;"
            f" wasted {wasted}"
        )

    def __repr__(self) -> str:
        costs = self.costs
        return (
            f"<CostReport layers={len(self.layers)} executed_mults={costs.executed.mults}"
            f" padded_mults={costs.padded.mults} partial={self.partial}>"
        )


def merge(*reports: CostReport) -> CostReport:
    """Sums reports of several processes, epochs or machines. The order does not change any figure.

    Layers are the same where name and spec agree; they stand in the order of their first appearance.
    An estimate is not added to what ran, but stands beside it.

    Raises:
        TypeError: if no report is given.
    """
    if not reports or not all(isinstance(report, CostReport) for report in reports):
        raise TypeError("merge() needs at least one report, each as an argument of its own: merge(first, second)")
    return CostReport(
        layers=_merge_layers(layer for report in reports for layer in report.layers),
        uncounted=tuple(dict.fromkeys(found for report in reports for found in report.uncounted)),
        verification=_merge_verifications(report.verification for report in reports),
        whole_models=tuple(dict.fromkeys(each for report in reports for each in report.whole_models)),
        contaminations=tuple(dict.fromkeys(each for report in reports for each in report.contaminations)),
        versions=functools.reduce(_merge_versions, (report.versions for report in reports)),
        commands=tuple(dict.fromkeys(command for report in reports for command in report.commands)),
    )


def new_versions(**packages: str) -> dict[str, tuple[str, ...]]:
    """The ``versions`` of a report made now by this rnncost."""
    return {"rnncost": (__version__,), **{name: (version,) for name, version in packages.items()}}


def _merge_layers(layers: Iterable[LayerCost]) -> tuple[LayerCost, ...]:
    merged: dict[tuple[str, Spec, bool], LayerCost] = {}
    for layer in layers:
        key = (layer.name, layer.spec, layer.source == "estimate")
        merged[key] = merged[key].merge(layer) if key in merged else layer
    return tuple(merged.values())


def _merge_verifications(found: Iterable[Verification | None]) -> Verification | None:
    there = [each for each in found if each is not None]
    return functools.reduce(Verification.merge, there) if there else None


def _merge_versions(left: dict[str, tuple[str, ...]], right: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted({*left.get(name, ()), *right.get(name, ())})) for name in dict.fromkeys((*left, *right))}


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
