"""Runs a model over batches under a tracker, as ``rnncost report`` does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rnncost.counting.shape import BatchShape
from rnncost.errors import ModelLoadError, UnsupportedModuleError
from rnncost.reporting.contamination import Contamination
from rnncost.reporting.report import CostReport
from rnncost.tracking.contamination import contamination
from rnncost.tracking.fitting import is_recurrent, uncovered
from rnncost.tracking.naming import without_compile_prefix
from rnncost.tracking.tracker import CostTracker

_CHECKED_SEQUENCES = 32


def run_batches(
    model: nn.Module, batches: Iterable[Any], *, backward: bool = False, timing: bool = False, verify: bool = True
) -> CostReport:
    """Calls ``model`` on each batch and reports the cost of all.

    Args:
        model: what to call.
        batches: each a tensor, a ``PackedSequence``, a tuple of positional arguments or a dict
            of keyword arguments.
        backward: run the backward of the outputs' sum too, and count it.
        timing: time each call too; those of the first batch only where no other batch is run unverified.
        verify: watch every kernel on the first batch, and on the others too if work outside any
            module was found there.

    Raises:
        ModelLoadError: for a batch of another type, or where nothing can be derived.
    """
    eye = CostTracker(model, backward=backward, timing=timing, verify=verify)
    plain = CostTracker(model, backward=backward, timing=timing)
    tracker = eye
    for number, batch in enumerate(batches):
        if number == 1 and not any(layer.source == "kernel" for layer in eye.report.layers):
            tracker = plain
        with tracker:
            _call(model, batch, number=number, backward=backward)
    first = eye.report
    if tracker is eye:
        return first
    if verify:  # which made its calls slower
        untimed = (msgspec.structs.replace(layer, run_time=None) for layer in first.layers)
        first = msgspec.structs.replace(first, layers=tuple(untimed))
    return first.merge(plain.report)


def call_model(model: nn.Module, batch: Any, *, number: int = 0) -> Any:
    """Calls ``model`` on a batch: a tensor, a ``PackedSequence``, positional arguments or keywords.

    Raises:
        ModelLoadError: naming the batch by its ``number``, if it is none of these.
    """
    if isinstance(batch, (Tensor, PackedSequence)):  # a PackedSequence is a tuple too
        return model(batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    if isinstance(batch, dict) and all(isinstance(key, str) for key in batch):
        return model(**batch)
    raise ModelLoadError(
        f"batch {number} is a {type(batch).__name__}; it must be a tensor, a PackedSequence, a tuple of positional "
        "arguments or a dict of keyword arguments"
    )


def check_layers(model: nn.Module, report: CostReport) -> CostReport:
    """The report with what padding does to each recurrent layer, on lengths that it saw."""
    found = tuple(
        _check_layer(without_compile_prefix(name) or type(module).__name__, module, report)
        for name, module in uncovered(model)
        if is_recurrent(module)
    )
    return msgspec.structs.replace(report, contaminations=found)


def _check_layer(name: str, module: nn.Module, report: CostReport) -> Contamination:
    shapes = [sample.shape for layer in report.layers if layer.name == name for sample in layer.samples]
    known = [shape for shape in shapes if shape.length_counts and len(shape.length_counts) > 1]
    if known:
        counts = known[0].length_counts or ()
        lengths = [length for length, number in counts for _ in range(number)]
        lengths = lengths[:: -(-len(lengths) // _CHECKED_SEQUENCES)]
    else:
        lengths = _even_lengths(shapes)
    try:
        found = contamination(module, lengths, name=name)
    except UnsupportedModuleError as error:
        return Contamination(name=name, unchecked=str(error))
    return msgspec.structs.replace(found, assumed=not known)


def _even_lengths(shapes: list[BatchShape]) -> list[int]:
    """Lengths from the longest down, where those of the run are all alike or unknown."""
    steps = max((shape.steps for shape in shapes), default=8)
    sequences = min(4, steps)
    return [steps - index * steps // sequences for index in range(sequences)]


def _call(model: nn.Module, batch: Any, *, number: int, backward: bool) -> None:
    output = call_model(model, batch, number=number)
    if not backward:
        return
    wanted = [tensor for tensor in _tensors(output) if tensor.requires_grad]
    if not wanted:
        raise ModelLoadError(
            f"--backward: no tensor that requires grad was found in the model's output, a {type(output).__name__}; "
            "return tensors, or tuples, dicts or dataclasses of them, that do"
        )
    torch.autograd.backward(wanted, [torch.ones_like(tensor) for tensor in wanted])
    model.zero_grad(set_to_none=True)


def _tensors(output: Any) -> Iterator[Tensor]:
    """The tensors in what a model returned, however it is nested."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, PackedSequence):
        yield output.data
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _tensors(value)
    elif isinstance(output, (tuple, list)):
        for value in output:
            yield from _tensors(value)
    elif hasattr(output, "__dataclass_fields__"):
        for name in output.__dataclass_fields__:
            yield from _tensors(getattr(output, name))
