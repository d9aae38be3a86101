"""Times the layouts of a model's recurrent layers, and says which to use."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import torch
from torch import nn

from rnncost.counting.lengths import check_lengths
from rnncost.errors import UnsupportedModuleError
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport
from rnncost.timing.layer_profile import LayerProfile
from rnncost.tracking import stock
from rnncost.tracking.estimate import estimate
from rnncost.tracking.naming import without_compile_prefix

DEFAULT_LAYOUTS = ("padded", "packed", "packed+packing", "bucketed(2)", "bucketed(4)", "bucketed(8)", "split")


def profile(
    model_or_rnn: nn.Module,
    lengths: Iterable[Any],
    *,
    layouts: Sequence[str] = DEFAULT_LAYOUTS,
    device: torch.device | str | None = None,
    backward: bool = True,
    budget_s: float = 20.0,
    seed: int = 0,
) -> CostReport:
    """Times each recurrent layer of a model on one batch of these lengths, in several layouts.

    Data are random, weights the layer's own. Modes, gradients, hooks and random state are as
    before afterwards; a layer on another ``device`` is copied there.

    Args:
        model_or_rnn: an ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM``, or a module holding such layers.
        lengths: steps of each sequence of the batch.
        layouts: names as :func:`make_layout` takes them, or ``split``. ``padded``, the base of
            all ratios, is always among them; more buckets than sequences are left out.
        device: where to run; by default where the layer is.
        backward: time forward and backward together, and the forward alone.
        budget_s: seconds for each layer, about.
        seed: of the data and of the order of rounds.

    Raises:
        UnsupportedModuleError: if there is no such layer.
        LengthsError: for lengths or layouts that cannot be.
    """
    checked = check_lengths(lengths)
    layers = _layers(model_or_rnn)
    if not layers:
        raise UnsupportedModuleError(
            f"{type(model_or_rnn).__name__} holds no nn.RNN, nn.GRU or nn.LSTM with torch's own forward to time"
        )
    report = estimate(model_or_rnn, checked, backward=backward)
    options = _Options(layouts=tuple(layouts), device=device, backward=backward, budget_s=budget_s, seed=seed)
    timed = [_timed(layer, layers.get(layer.name), checked, options) for layer in report.layers]
    return msgspec.structs.replace(report, layers=tuple(timed))


def profile_layers(
    model: nn.Module,
    report: CostReport,
    *,
    layouts: Sequence[str] = DEFAULT_LAYOUTS,
    device: torch.device | str | None = None,
    backward: bool = True,
    budget_s: float = 60.0,
    seed: int = 0,
) -> CostReport:
    """Times the layers of a report on a batch that each of them saw, out of its sample.

    Layers that saw no batch of known lengths are left as they are.

    Args:
        model: the model that was tracked.
        report: its report.
        layouts: as in :func:`profile`.
        device: as in :func:`profile`.
        backward: as in :func:`profile`.
        budget_s: seconds for all layers together, about.
        seed: as in :func:`profile`.
    """
    layers = _layers(model)
    seen = {layer.name: _seen_lengths(layer) for layer in report.layers if layer.name in layers}
    known = [name for name, lengths in seen.items() if lengths]
    options = _Options(
        layouts=tuple(layouts),
        device=device,
        backward=backward,
        budget_s=budget_s / max(1, len(known)),
        seed=seed,
    )
    timed = [
        _timed(layer, layers[layer.name], seen[layer.name], options) if layer.name in known else layer
        for layer in report.layers
    ]
    return msgspec.structs.replace(report, layers=tuple(timed))


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    layouts: tuple[str, ...]
    device: Any
    backward: bool
    budget_s: float
    seed: int


def _layers(model: nn.Module) -> dict[str, nn.RNNBase]:
    return {
        without_compile_prefix(name) or type(module).__name__: module
        for name, module in model.named_modules()
        if isinstance(module, nn.RNNBase) and stock.is_stock_layer(module)
    }


def _seen_lengths(layer: LayerCost) -> tuple[int, ...]:
    """Lengths of the first batch of the sample whose lengths are known."""
    shapes = (sample.shape for sample in layer.samples if sample.shape.length_counts)
    counts = next((shape.length_counts for shape in shapes), None) or ()
    return tuple(length for length, number in counts for _ in range(number))


def _timed(layer: LayerCost, rnn: nn.RNNBase | None, lengths: tuple[int, ...], options: _Options) -> LayerCost:
    if rnn is None:
        return layer
    run = LayerProfile(_on_device(rnn, options.device), lengths, backward=options.backward, seed=options.seed)
    return run.timed(layer, layouts=options.layouts, budget_s=options.budget_s)


def _on_device(rnn: nn.RNNBase, device: torch.device | str | None) -> nn.RNNBase:
    if device is None or torch.device(device) == next(iter(rnn.parameters())).device:
        return rnn
    return copy.deepcopy(rnn).to(device)
