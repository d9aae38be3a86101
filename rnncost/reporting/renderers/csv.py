"""A table for spreadsheets and data frames: one row a layer, raw integers, stable names of columns."""

from __future__ import annotations

import csv
import io

from rnncost.counting.spec import RnnSpec
from rnncost.reporting.costs import Costs
from rnncost.reporting.layer import LayerCost, Uncounted
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import recommended
from rnncost.units import printable

Value = str | int | float | None

_SIZES = ("input_size", "hidden_size", "num_layers", "bias", "bidirectional", "proj_size", "cell")
_PASSES = ("forward", "backward", "total")
_UNITS = ("macs", "mults", "adds", "activations")
_LAYOUTS = ("executed", "padded", "packed", "saved", "wasted")
_TIMES = (
    "device",
    "rounds",
    "best_layout",
    "best_ratio_to_padded",
    "best_ratio_low",
    "best_ratio_high",
    "best_total_s",
    "padded_total_s",
    "packed_total_s",
    "packed_packing_total_s",
    "untimed",
)
COLUMNS = (
    "name",
    "type",
    "spec",
    *_SIZES,
    "source",
    "uncounted",
    "calls",
    "backward_calls",
    "sequences",
    "rows_executed",
    "rows_padded",
    "rows_packed",
    *(f"{each}_{unit}_{layout}" for each in _PASSES for unit in _UNITS for layout in _LAYOUTS),
    "saved_fraction",
    "wasted_fraction",
    *_TIMES,
)
# With one of these a spreadsheet takes a text for a formula.
_FORMULA = ("=", "+", "-", "@")


class CsvRenderer:
    r"""Draws a report as CSV: a header, then a row a layer, then a row for each uncounted module.

    An empty cell is unknown, and never 0: what was not counted, waste without true lengths, and
    the backward of a layer of which none was seen (``total`` is then the forward alone). The row
    of an uncounted module has its reason under ``uncounted`` and no counts. A text that begins
    with ``=``, ``+``, ``-`` or ``@`` gets an apostrophe before it, since a spreadsheet would run
    it; control characters are escaped (``\n``). JSON has all names as they are.
    """

    def render(self, report: CostReport) -> str:
        """The report as CSV, lines ending in a line feed alone."""
        stream = io.StringIO()
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for values in (*map(_layer_row, report.layers), *map(_uncounted_row, report.uncounted)):
            writer.writerow({column: _cell(value) for column, value in values.items()})
        return stream.getvalue()


def _layer_row(layer: LayerCost) -> dict[str, Value]:
    tally = layer.tally
    return {
        "name": layer.name,
        **_spec(layer),
        "source": layer.source,
        "calls": tally.calls,
        "backward_calls": sum(call.backward.calls for call in layer.backward_calls) or None,
        "sequences": tally.sequences,
        "rows_executed": tally.rows,
        "rows_padded": tally.padded_rows,
        "rows_packed": tally.packed_rows,
        **_counts("forward", layer.forward),
        **(_counts("backward", layer.backward) if layer.backward_calls and isinstance(layer.spec, RnnSpec) else {}),
        **_counts("total", layer.costs),
        "saved_fraction": layer.saved_fraction,
        "wasted_fraction": layer.wasted_fraction,
        **_times(layer),
    }


def _uncounted_row(found: Uncounted) -> dict[str, Value]:
    return {"name": found.name, "type": found.type_name, "uncounted": found.reason}


def _spec(layer: LayerCost) -> dict[str, Value]:
    spec = layer.spec
    if not isinstance(spec, RnnSpec):
        return {"type": "custom", "spec": str(spec)}
    return {"type": spec.kind, "spec": str(spec), **{name: getattr(spec, name) for name in _SIZES}}


def _counts(name: str, costs: Costs) -> dict[str, Value]:
    counts = {layout: getattr(costs, layout) for layout in _LAYOUTS}
    return {
        f"{name}_{unit}_{layout}": None if count is None else getattr(count, unit)
        for unit in _UNITS
        for layout, count in counts.items()
    }


def _times(layer: LayerCost) -> dict[str, Value]:
    if layer.conditions is None:
        return {"untimed": layer.untimed or None}
    seconds = {each.layout: each.total_s for each in layer.timings}
    times: dict[str, Value] = {
        "device": layer.conditions.device,
        "rounds": layer.conditions.rounds,
        "padded_total_s": seconds.get("padded"),
        "packed_total_s": seconds.get("packed"),
        "packed_packing_total_s": seconds.get("packed+packing"),
        "untimed": layer.untimed or None,
    }
    best = recommended(layer.timings, layer.best_layout)
    if best is None:
        return times
    return {
        **times,
        "best_layout": layer.best_layout,
        "best_ratio_to_padded": best.ratio_to_padded,
        "best_ratio_low": best.ratio_low,
        "best_ratio_high": best.ratio_high,
        "best_total_s": best.total_s,
    }


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
