"""Times the layouts of a model's recurrent layers, and says which to use."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch import nn

from rnncost.counting.lengths import check_lengths
from rnncost.errors import LengthsError, UnitError, UnsupportedModuleError
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport
from rnncost.timing.clock import check_device
from rnncost.timing.layer_profile import LayerProfile
from rnncost.tracking import stock
from rnncost.tracking.estimate import estimate
from rnncost.tracking.naming import without_compile_prefix

DEFAULT_LAYOUTS = ("padded", "packed", "packed+packing", "bucketed(2)", "bucketed(4)", "bucketed(8)", "split")

Progress = Callable[[str, float], None]
"""Gets the name of the layer that is timed and what part of the whole is done, 0 to 1."""

Batches = tuple[tuple[int, ...], ...]
# As many as show how batches differ; more would only leave fewer rounds of the budget.
_BATCHES = 4


def profile(
    model_or_rnn: nn.Module,
    lengths: Iterable[Any],
    *,
    layouts: Sequence[str] = DEFAULT_LAYOUTS,
    device: torch.device | str | None = None,
    backward: bool = True,
    budget_s: float = 20.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> CostReport:
    """Times each recurrent layer of a model on one batch of these lengths, in several layouts.

    Data are random; what runs is a private copy of each layer with its effective weights, so
    nothing of the model is touched, no hook is run, and no tracker counts it. It runs in the dtype
    of its weights, autocast or not. An interrupt (Ctrl-C) ends it and keeps what was timed.

    Args:
        model_or_rnn: an ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM``, or a module holding such layers.
        lengths: steps of each sequence of the batch.
        layouts: names as :func:`make_layout` takes them, or ``split``. ``padded``, the base of
            all ratios, is always among them; more buckets than sequences are left out.
        device: where to run; by default where the layer is.
        backward: time forward and backward together, and the forward alone.
        budget_s: seconds for each layer, about; three rounds are run whatever it is, a verdict takes six.
        seed: of the data and of the order of rounds.
        progress: called between timed calls with the layer's name and what part of all is done.

    Raises:
        UnsupportedModuleError: if there is no such layer.
        LengthsError: for lengths or layouts that cannot be.
        DeviceError: for a device that is not there.
        UnitError: for a budget that is no number above 0.
    """
    if not isinstance(model_or_rnn, nn.Module):
        raise UnsupportedModuleError(
            f"the model is a {type(model_or_rnn).__name__}, not a torch.nn.Module with weights to run"
        )
    checked = check_lengths(lengths)
    options = _Options(layouts=layouts, device=device, backward=backward, budget_s=budget_s, seed=seed)
    layers = _layers(model_or_rnn)
    if not layers:
        raise UnsupportedModuleError(
            f"{type(model_or_rnn).__name__} holds no nn.RNN, nn.GRU or nn.LSTM with torch's own forward to time"
        )
    report = estimate(model_or_rnn, checked, backward=backward)
    return _all_timed(report, layers, dict.fromkeys(layers, (checked,)), options, progress)


def profile_layers(
    model: nn.Module,
    report: CostReport,
    *,
    layouts: Sequence[str] = DEFAULT_LAYOUTS,
    device: torch.device | str | None = None,
    backward: bool = True,
    budget_s: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> CostReport:
    """Times the layers of a report on a few batches that each of them saw, out of its random sample.

    A layout runs the batches one after another, and its time is that of all of them. Layers that
    saw no batch of known lengths are left as they are.

    Args:
        model: the model that was tracked.
        report: its report.
        layouts: as in :func:`profile`.
        device: as in :func:`profile`.
        backward: as in :func:`profile`.
        budget_s: seconds for all layers together, about: a layer that is begun gets three rounds,
            and one whose turn comes after them is left untimed.
        seed: as in :func:`profile`.
        progress: as in :func:`profile`.
    """
    layers = _layers(model)
    seen = {layer.name: _seen_batches(layer) for layer in report.layers if layer.name in layers}
    known = sum(1 for batches in seen.values() if batches)
    options = _Options(layouts=layouts, device=device, backward=backward, budget_s=budget_s / max(1, known), seed=seed)
    return _all_timed(report, layers, seen, options, progress, deadline=time.monotonic() + budget_s)


class _Options:
    """What a profile was asked for, checked before anything runs."""

    def __init__(
        self, *, layouts: Sequence[str], device: torch.device | str | None, backward: bool, budget_s: float, seed: int
    ) -> None:
        if isinstance(layouts, str) or not all(isinstance(name, str) for name in layouts):
            raise LengthsError(f"layouts is {layouts!r}; give a list of names such as ['packed', 'split']")
        if not (isinstance(budget_s, (int, float)) and 0 < budget_s < float("inf")):
            raise UnitError(f"budget_s is {budget_s!r}; give a number of seconds above 0")
        check_device(device)
        self.layouts, self.device, self.backward = tuple(layouts), device, backward
        self.budget_s, self.seed = float(budget_s), seed


def _all_timed(
    report: CostReport,
    layers: Mapping[str, nn.RNNBase],
    batches: Mapping[str, Batches],
    options: _Options,
    progress: Progress | None,
    deadline: float = math.inf,
) -> CostReport:
    """Times layer after layer; an interrupt ends all, and keeps what was timed before.

    So does ``deadline``, where there is one: layers that take longer than their share leave the
    last ones untimed.
    """
    timed: list[LayerCost] = []
    interrupted = False
    parts = [layer.name for layer in report.layers if batches.get(layer.name)]
    for layer in report.layers:
        reason = _unfit(layer, layers.get(layer.name), batches.get(layer.name, ()))
        if not reason and interrupted:
            reason = "interrupted"
        elif not reason and time.monotonic() >= deadline:
            reason = "the budget was spent before it; give more"
        elif not reason:
            try:
                tick = None if progress is None else _Ticks(layer.name, parts, options.budget_s, progress)
                layer = _timed(layer, layers[layer.name], batches[layer.name], options, tick)
                interrupted = layer.conditions is not None and not layer.conditions.complete
            except KeyboardInterrupt:
                interrupted, reason = True, "interrupted"
        timed.append(msgspec.structs.replace(layer, untimed=reason or layer.untimed))
    return msgspec.structs.replace(report, layers=tuple(timed))


def _unfit(layer: LayerCost, rnn: nn.RNNBase | None, batches: Batches) -> str:
    """Why a layer cannot be timed; nothing where it can."""
    if rnn is None:
        return "only nn.RNN, nn.GRU and nn.LSTM with torch's own forward are timed"
    spec = stock.read_spec(rnn)
    if spec != layer.spec:
        return f"the model's layer of this name is another one, {spec}"
    return "" if batches else "it saw no batch of known lengths; pack, or give lengths to profile()"


def _layers(model: nn.Module) -> dict[str, nn.RNNBase]:
    return {
        without_compile_prefix(name) or type(module).__name__: module
        for name, module in model.named_modules()
        if isinstance(module, nn.RNNBase) and stock.is_stock_layer(module)
    }


def _seen_batches(layer: LayerCost) -> Batches:
    """Lengths of the first few batches of the sample whose lengths are known."""
    known = (sample.shape.length_counts for sample in layer.samples if sample.shape.length_counts)
    return tuple(
        tuple(length for length, number in counts for _ in range(number))
        for counts in itertools.islice(known, _BATCHES)
    )


def _timed(
    layer: LayerCost, rnn: nn.RNNBase, batches: Batches, options: _Options, tick: Callable[[], None] | None
) -> LayerCost:
    run = LayerProfile(rnn, batches, backward=options.backward, seed=options.seed, device=options.device, tick=tick)
    return run.timed(layer, layouts=options.layouts, budget_s=options.budget_s)


class _Ticks:
    """Tells how far a layer is, by the time it has had of its budget."""

    def __init__(self, name: str, parts: Sequence[str], budget_s: float, progress: Progress) -> None:
        self._name, self._progress = name, progress
        self._before, self._parts, self._budget_s = parts.index(name), len(parts), budget_s
        self._start = time.monotonic()

    def __call__(self) -> None:
        share = min(1.0, (time.monotonic() - self._start) / self._budget_s)
        self._progress(self._name, (self._before + share) / self._parts)
