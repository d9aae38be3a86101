"""What a reader of the figures must know, in sentences; every renderer shows the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import VERDICT_ROUNDS
from rnncost.units import format_count, format_fraction, printable

_SHOWN_NAMES = 8
NOT_TIME = "Operations, not time: fewer operations can still take longer on a given device"


def notes(report: CostReport) -> tuple[str, ...]:
    """The notes of a report, the most important first."""
    return tuple(map(printable, _notes(report)))


def timing_doubts(report: CostReport) -> tuple[str, ...]:
    """Why timings are less certain than others, for renderers that do not say it beside the timings."""
    return tuple(_timing_doubts(report))


def _timing_doubts(report: CostReport) -> Iterator[str]:
    interrupted = [layer for layer in report.layers if layer.conditions is not None and not layer.conditions.complete]
    if interrupted:
        yield f"The timing was INTERRUPTED, so it is less certain: {_names(interrupted)}."
    few = [layer for layer in report.layers if layer.conditions is not None and not layer.conditions.conclusive]
    if few:
        yield (
            f"Timed in too few rounds for a verdict, which takes {VERDICT_ROUNDS}, so that what looks faster may not "
            f"be: {_names(few)}; give more --budget."
        )


def _notes(report: CostReport) -> Iterator[str]:
    for found in report.uncounted:
        yield f"PARTIAL: {found}."
    if report.verification is not None:
        calls = sum(layer.tally.calls for layer in report.layers if layer.source != "reader")
        yield report.verification.describe(partial=report.partial, calls=calls)
    estimated = [layer for layer in report.layers if layer.source == "estimate"]
    if estimated:
        trained = "; a backward through its output, to the weights, and to its input above a trained layer"
        backward = trained if report.backward.executed.mults else ""
        run = "nothing was run" if len(estimated) == len(report.layers) else f"not run: {_names(estimated)}"
        yield f"Estimated, {run}: each layer is taken to be called once a batch{backward}."
    if not report.layers and not report.partial:
        yield "No recurrent layer was found, so there is nothing to count."
    idle = [layer for layer in report.layers if not layer.calls]
    if idle:
        yield f"Never called: {_names(idle)}."
    for whole in report.whole_models:
        yield f"{whole}."
        yield from (f"{each}." for each in whole.position_wise if each.rows > each.real_rows)
    yield from _padding(report)
    yield from _backward(report)
    for layer in report.layers:
        if layer.untimed:
            yield f"{printable(layer.name)} is not timed: {layer.untimed}."
    yield from _run_time(report)
    if not any(layer.timings or layer.untimed or layer.run_time for layer in report.layers):
        yield f"{NOT_TIME}; --profile measures it."


def _padding(report: CostReport) -> Iterator[str]:
    unknown = [layer for layer in report.layers if layer.packed is None and not layer.is_cell]
    if unknown:
        calls = sum(call.forward.calls for layer in unknown for call in layer.calls if call.forward.packed_rows is None)
        padded_calls = "1 padded call" if calls == 1 else f"{calls:,} padded calls"
        yield f"? = unknown: {padded_calls} of {_names(unknown)} came without true lengths; give them with lengths=."
    cells = [layer for layer in report.layers if layer.is_cell and layer.calls]
    if cells:
        yield (
            f"{_names(cells)}: a cell sees one step at a time, so that what a padded loop would have run is not known; "
            "its padded rows are those executed."
        )
    for layer in report.layers:
        wasted = layer.wasted
        padded_rows = sum(call.forward.rows for call in layer.calls if not call.kind.packed)
        if wasted is not None and wasted.mults > 0 and padded_rows:
            # A module that only a reader knows may compute the filler of packed input as well.
            says = "padding took" if layer.source == "reader" else "packing would have saved"
            yield (
                f"{printable(layer.name)}: {says} {format_count(wasted.mults)} mults, "
                f"{format_fraction(layer.wasted_fraction)} of those executed."
            )


def _backward(report: CostReport) -> Iterator[str]:
    recomputed = [layer for layer in report.layers if layer.recomputed_calls]
    if recomputed:
        calls = sum(layer.recomputed_calls for layer in recomputed)
        yield f"Recomputed in the backward pass, counted as executed: {calls:,} forward calls of {_names(recomputed)}."
    slicing, adds = sum(layer.slicing_adds for layer in report.layers), report.executed.adds
    if slicing * 10 > adds:
        yield (
            f"{format_fraction(slicing / adds)} of all adds ({format_count(slicing)}) come of slicing packed data step "
            "by step: autograd adds up a tensor of all rows for each step on the CPU, quadratic in the number of steps."
        )


def _run_time(report: CostReport) -> Iterator[str]:
    timed = [(layer, layer.run_time) for layer in report.layers if layer.run_time is not None]
    if not timed:
        return
    yield "Time is that of the layouts that ran; what others would take, --profile measures."
    # By name: a module that ran as several specs has its time at the first.
    left_out: Counter[str] = Counter()
    for layer in report.layers:
        left_out[layer.name] += layer.tally.calls - (layer.run_time.forward_calls if layer.run_time else 0)
    names = [name for name, calls in left_out.items() if calls > 0]
    if names:
        calls = sum(left_out[name] for name in names)
        yield f"Not timed: {_of(calls, 'forward call')} of {_listed(names)}."
    untimed = [(layer, time.backward_untimed) for layer, time in timed if time.backward_untimed]
    if untimed:
        calls = sum(calls for _, calls in untimed)
        yield (
            f"Not timed: the backward of {_of(calls, 'call')} of {_names([layer for layer, _ in untimed])}. Autograd "
            "does not tell when it has done one of several calls that give gradients to the same weights and to "
            "nothing else, nor one whose gradients torch.autograd.grad returns."
        )
    verified = [layer for layer, time in timed if time.verified_calls]
    if verified:
        yield f"Timed while every kernel was verified, which makes calls slower: {_names(verified)}."


def _of(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _names(layers: list[LayerCost]) -> str:
    return _listed([layer.name for layer in layers])


def _listed(names: list[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} and {len(names) - _SHOWN_NAMES:,} more"
