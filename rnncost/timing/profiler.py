"""Times the layouts of a model's recurrent layers, and says which to use."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from rnncost.counting import formulas
from rnncost.counting.kinds import BackwardKind
from rnncost.counting.lengths import check_lengths
from rnncost.counting.shape import BatchShape
from rnncost.counting.tally import Tally
from rnncost.errors import UnsupportedModuleError
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport
from rnncost.reporting.timing import LayoutTiming, TimingConditions
from rnncost.timing import conditions
from rnncost.timing.batch import SequenceBatch
from rnncost.timing.clock import Clock, clock_for
from rnncost.timing.exact import ExactGroup, run_exact
from rnncost.timing.layouts import Grouped, Layout, Packed, Padded, equal_groups, make_layout
from rnncost.timing.sampling import Sampled, sample
from rnncost.timing.split import GroupTime, best_split, fit_group_time
from rnncost.tracking import stock
from rnncost.tracking.estimate import estimate
from rnncost.tracking.naming import without_compile_prefix
from rnncost.tracking.undisturbed import undisturbed

DEFAULT_LAYOUTS = ("padded", "packed", "packed+packing", "bucketed(2)", "bucketed(4)", "bucketed(8)", "split")
SPLIT = "split"
_MEASUREMENTS = 3


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


class LayerProfile:
    """The timing of one layer on one batch.

    Args:
        rnn: the layer.
        lengths: of the batch.
        backward: time the backward too.
        seed: of data and order.
        clock: the device's clock by default.
    """

    def __init__(
        self, rnn: nn.RNNBase, lengths: Sequence[int], *, backward: bool, seed: int = 0, clock: Clock | None = None
    ) -> None:
        spec = stock.read_spec(rnn)
        assert spec is not None
        self._rnn, self._spec, self._backward, self._seed = rnn, spec, backward, seed
        self._device = next(iter(rnn.parameters())).device
        self._clock = clock or clock_for(self._device)
        self._batch = SequenceBatch(rnn, lengths, seed=seed)

    def timed(self, layer: LayerCost, *, layouts: Sequence[str], budget_s: float) -> LayerCost:
        """``layer`` with its timings, its conditions and the layout to use."""
        with undisturbed(self._rnn, without_hooks=True), torch.set_grad_enabled(self._backward):
            made, predicted_s = self._make(layouts)
            sampled = self._sample(made, budget_s)
            timings = tuple(self._timing(each, sampled, predicted_s) for each in made)
            found = self._conditions(sampled)
        return msgspec.structs.replace(layer, timings=timings, conditions=found, best_layout=best_layout(timings))

    def _make(self, names: Sequence[str]) -> tuple[list[Layout], float | None]:
        made: list[Layout] = [Padded(self._rnn, self._batch)]
        predicted_s = None
        for name in dict.fromkeys(names):
            buckets = name[9:-1] if name.startswith("bucketed(") else ""
            if name == "padded" or (buckets.isdecimal() and int(buckets) > self._batch.sequences):
                continue
            if name == SPLIT:
                groups, predicted_s = best_split(self._batch.sorted_lengths(), self.group_time())
                made.append(Grouped(self._rnn, self._batch, groups, name=SPLIT))
            else:
                made.append(make_layout(name, self._rnn, self._batch))
        return made, predicted_s

    def group_time(self) -> GroupTime:
        """Measures the cost model of padded groups of this layer."""
        sequences, steps = self._batch.sequences, int(self._batch.lengths.max())
        fitted = fit_group_time(sequences, steps, self._group_seconds, split_s=0.0)
        if sequences < 2:
            return fitted
        # What a group costs beside its own run shows in a batch of two.
        halves = Grouped(self._rnn, self._batch, equal_groups(sequences, 2), name="halves")
        parts = fitted.predict(self._batch.sorted_lengths(), halves.groups)
        split_s = max(0.0, (self._measured(halves.run) - parts) / 2)
        return msgspec.structs.replace(fitted, split_s=split_s)

    def _group_seconds(self, sequences: int, steps: int) -> float:
        # Lengths are not all alike, so that the group is run as a real one is.
        lengths = torch.full((sequences,), steps)
        if sequences > 1 and steps > 1:
            lengths[-1] = steps - 1
        group = ExactGroup(lengths.to(self._device), steps=steps)
        data = torch.zeros(steps, sequences, self._rnn.input_size, device=self._device, dtype=self._batch.padded.dtype)
        return self._measured(lambda: run_exact(self._rnn, data, group))

    def _measured(self, run: Callable[[], tuple[Tensor, Tensor]]) -> float:
        call = self._full(run)
        call()
        laps = []
        for _ in range(_MEASUREMENTS):
            self._free()
            laps.append(self._clock.time(call))
        self._clock.settle()
        return sorted(lap.seconds for lap in laps)[_MEASUREMENTS // 2]

    def _full(self, run: Callable[[], tuple[Tensor, Tensor]]) -> Callable[[], object]:
        if not self._backward:
            return run

        def forward_and_backward() -> None:
            outputs = run()
            torch.autograd.backward(outputs, [torch.ones_like(tensor) for tensor in outputs])

        return forward_and_backward

    def _sample(self, layouts: Sequence[Layout], budget_s: float) -> Sampled:
        calls = {f"{each.name} total": self._full(each.run) for each in layouts}
        if self._backward:
            calls.update({f"{each.name} forward": each.run for each in layouts})
        return sample(
            calls, clock=self._clock, base="padded total", budget_s=budget_s, seed=self._seed, between=self._free
        )

    def _free(self) -> None:
        for parameter in self._rnn.parameters():
            parameter.grad = None

    def _timing(self, layout: Layout, sampled: Sampled, predicted_s: float | None) -> LayoutTiming:
        total = f"{layout.name} total"
        ratio = sampled.ratio(total, "padded total", seed=self._seed)
        total_s = sampled.median(total)
        forward_s = sampled.median(f"{layout.name} forward") if self._backward else total_s
        memory = conditions.peak_bytes(layout.run, self._device, self._batch.padded)
        return LayoutTiming(
            layout=layout.name,
            exact=layout.exact,
            groups=layout.groups,
            forward_s=forward_s,
            backward_s=total_s - forward_s if self._backward else None,
            total_s=total_s,
            ratio_to_padded=ratio.median,
            ratio_low=ratio.low,
            ratio_high=ratio.high,
            verdict=ratio.verdict,
            peak_bytes=memory,
            flops_per_s=self._flops(layout) / total_s,
            predicted_s=predicted_s if layout.name == SPLIT else None,
        )

    def _flops(self, layout: Layout) -> int:
        """FLOPs that the layout executes: those of its groups, of the packed batch, or of the rectangle."""
        lengths = self._batch.sorted_lengths()
        packed = layout.name.startswith("packed")
        ends = list(itertools.accumulate(layout.groups)) or [len(lengths)]
        groups = [lengths[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        tally = sum((Tally.of(BatchShape.from_lengths(group, packed=packed)) for group in groups), start=Tally())
        total = formulas.forward(self._spec, tally)
        if self._backward:
            tally = Tally(passes=tally.calls) + tally
            total += formulas.backward(self._spec, BackwardKind(packed=packed, through_state=True), tally)
        return total.flops

    def _conditions(self, sampled: Sampled) -> TimingConditions:
        layouts: tuple[Layout, ...] = (Padded(self._rnn, self._batch), Packed(self._rnn, self._batch))
        return TimingConditions(
            device=conditions.device_name(self._device),
            dtype=str(self._batch.padded.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            kernels={each.name: conditions.kernel_family(each.run) for each in layouts},
            libraries=conditions.library_versions(self._device),
            sequences=self._batch.sequences,
            steps=int(self._batch.lengths.max()),
            rows=int(self._batch.lengths.sum()),
            rounds=sampled.rounds,
            complete=sampled.complete,
            backward=self._backward,
        )


def best_layout(timings: Sequence[LayoutTiming]) -> str | None:
    """The fastest exact layout, padded data in and padded data out; ``None`` where none is exact.

    ``packed`` alone leaves out what packing and unpacking cost, so where both were timed the one
    that includes it stands for packing.
    """
    names = {timing.layout for timing in timings}
    exact = [timing for timing in timings if timing.exact]
    if "packed+packing" in names:
        exact = [timing for timing in exact if timing.layout != "packed"]
    best = min(exact, key=lambda timing: timing.ratio_to_padded, default=None)
    if best is None:
        return None
    return "packed" if best.layout == "packed+packing" else best.layout


def _on_device(rnn: nn.RNNBase, device: torch.device | str | None) -> nn.RNNBase:
    if device is None or torch.device(device) == next(iter(rnn.parameters())).device:
        return rnn
    return copy.deepcopy(rnn).to(device)
