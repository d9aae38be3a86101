"""The timing of one recurrent layer on a few batches."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from rnncost.counting import formulas
from rnncost.counting.kinds import BackwardKind
from rnncost.counting.shape import BatchShape
from rnncost.counting.tally import Tally
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.timing import LayoutTiming, TimingConditions
from rnncost.timing import conditions
from rnncost.timing.batch import SequenceBatch, private_copy
from rnncost.timing.clock import Clock, clock_for
from rnncost.timing.group_cost import Run, measure_group_cost
from rnncost.timing.layouts import Grouped, Layout, OverBatches, Packed, Padded, bucket_count, make_layout
from rnncost.timing.sampling import Sampled, sample
from rnncost.timing.split import best_split
from rnncost.tracking import stock

SPLIT = "split"
# What part of the time goes into the cost model of groups; the rest compares the layouts.
_MODEL_SHARE = 0.4
# The model has two to three times as many calls as there are layouts, and gives no verdict.
_MODEL_ROUNDS = 1


class LayerProfile:
    """The timing of one layer on a few batches, which a layout runs one after another.

    Args:
        rnn: the layer; a private copy of it is run.
        batches: lengths of each batch.
        backward: time the backward too.
        seed: of data and order.
        device: where to run; by default where the layer is.
        clock: the device's clock by default.
        tick: called between timed calls, for a progress bar.
    """

    def __init__(
        self,
        rnn: nn.RNNBase,
        batches: Sequence[Sequence[int]],
        *,
        backward: bool,
        seed: int = 0,
        device: torch.device | str | None = None,
        clock: Clock | None = None,
        tick: Callable[[], None] | None = None,
    ) -> None:
        spec = stock.read_spec(rnn)
        assert spec is not None
        with _alone(seed):
            self._rnn = private_copy(rnn, device=device)
            self._batches = [
                SequenceBatch(self._rnn, lengths, seed=seed + number) for number, lengths in enumerate(batches)
            ]
        trained = any(parameter.requires_grad for parameter in self._rnn.parameters())
        self._spec, self._backward, self._seed = spec, backward and trained, seed
        self._device = next(self._rnn.parameters()).device
        self._clock = clock or clock_for(self._device)
        self._tick = tick or (lambda: None)

    def timed(self, layer: LayerCost, *, layouts: Sequence[str], budget_s: float) -> LayerCost:
        """``layer`` with its timings, its conditions and the layout to use.

        A layer of which no weight requires grad is timed forward alone.
        """
        deadline = time.monotonic() + budget_s
        with _alone(self._seed), torch.set_grad_enabled(self._backward):
            made, predicted = self._make(layouts, budget_s * _MODEL_SHARE)
            # What is run only once comes first: an interrupt of it could take the rounds with it.
            peaks, kernels = [self._peak_bytes(each) for each in made], self._kernels()
            sampled = self._sample(made, max(0.0, deadline - time.monotonic()))
            timed = zip(made, peaks, strict=True)
            timings = tuple(self._timing(each, sampled, predicted, peak) for each, peak in timed)
            found = self._conditions(sampled, kernels)
        return msgspec.structs.replace(layer, timings=timings, conditions=found, best_layout=best_layout(timings))

    def _make(self, names: Sequence[str], budget_s: float) -> tuple[list[OverBatches], float | None]:
        """The layouts, and what the best split is predicted to take relative to padded."""
        made, predicted = [self._over("padded")], None
        largest = max(batch.sequences for batch in self._batches)
        for name in dict.fromkeys(names):
            buckets = bucket_count(name)
            if name == "padded" or (buckets is not None and buckets > largest):
                continue
            if name == SPLIT:
                split, predicted = self._split(budget_s)
                made.append(split)
            else:
                made.append(self._over(name))
        return made, predicted

    def _over(self, name: str) -> OverBatches:
        buckets = bucket_count(name)
        return OverBatches(
            name,
            [
                # A batch of fewer sequences than buckets is cut as far as it can be.
                make_layout(f"bucketed({min(buckets, batch.sequences)})" if buckets else name, self._rnn, batch)
                for batch in self._batches
            ],
        )

    def _split(self, budget_s: float) -> tuple[OverBatches, float]:
        """The best split of each batch, and its predicted time relative to padded."""
        largest = max(self._batches, key=lambda batch: batch.padded.shape[0] * batch.sequences)
        cost = measure_group_cost(
            self._rnn,
            largest,
            lambda runs, base: self._sampled({name: [run] for name, run in runs.items()}, base, budget_s),
        )
        layouts, split_s, padded_s = [], 0.0, 0.0
        for batch in self._batches:
            groups, predicted_s = best_split(batch.sorted_lengths(), cost.time)
            layouts.append(Grouped(self._rnn, batch, groups, name=SPLIT))
            split_s += predicted_s
            padded_s += cost.padded_seconds(batch.sequences, batch.padded.shape[0])
        return OverBatches(SPLIT, layouts), split_s / padded_s

    def _full(self, runs: Sequence[Run]) -> Callable[[], None]:
        def forward_and_backward() -> None:
            for run in runs:
                outputs = run()
                if self._backward:
                    torch.autograd.backward(outputs, [torch.ones_like(tensor) for tensor in outputs])

        return forward_and_backward

    def _sampled(self, runs: Mapping[str, Sequence[Run]], base: str, budget_s: float) -> Sampled:
        calls = {name: self._full(each) for name, each in runs.items()}
        found = sample(
            calls,
            clock=self._clock,
            base=base,
            budget_s=budget_s,
            fewest_rounds=_MODEL_ROUNDS,
            seed=self._seed,
            between=self._between,
        )
        if not found.complete:
            raise KeyboardInterrupt  # nothing of the layouts themselves is measured yet
        return found

    def _sample(self, layouts: Sequence[OverBatches], budget_s: float) -> Sampled:
        calls = {f"{each.name} total": self._full(each.runs) for each in layouts}
        if self._backward:
            calls.update({f"{each.name} forward": _forward(each.runs) for each in layouts})
        return sample(
            calls, clock=self._clock, base="padded total", budget_s=budget_s, seed=self._seed, between=self._between
        )

    def _between(self) -> None:
        for parameter in self._rnn.parameters():
            parameter.grad = None
        self._tick()

    def _timing(self, layout: OverBatches, sampled: Sampled, predicted: float | None, peak: int | None) -> LayoutTiming:
        total = f"{layout.name} total"
        ratio = sampled.ratio(total, "padded total")
        total_s = sampled.median(total)
        forward_s = sampled.median(f"{layout.name} forward") if self._backward else total_s
        is_split = layout.name == SPLIT and predicted is not None
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
            rows=self._tally(layout).rows,
            peak_bytes=peak,
            flops_per_s=self._flops(layout) / total_s,
            predicted_s=predicted * sampled.median("padded total") if is_split and predicted is not None else None,
        )

    def _tally(self, layout: OverBatches) -> Tally:
        """What the layout runs: its groups, the packed batches, or the rectangles."""
        lengths = [length for batch in self._batches for length in batch.sorted_lengths()]
        sizes = layout.groups or [batch.sequences for batch in self._batches]
        ends = list(itertools.accumulate(sizes))
        groups = [lengths[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        shapes = (BatchShape.from_lengths(group, packed=_is_packed(layout)) for group in groups)
        return sum(map(Tally.of, shapes), start=Tally())

    def _flops(self, layout: OverBatches) -> int:
        tally = self._tally(layout)
        total = formulas.forward(self._spec, tally)
        if self._backward:
            tally = Tally(passes=tally.calls) + tally
            kind = BackwardKind(packed=_is_packed(layout), through_state=True)
            total += formulas.backward(self._spec, kind, tally)
        return total.flops

    def _peak_bytes(self, layout: OverBatches) -> int | None:
        """The most that one of the batches needs."""
        pairs = zip(layout.runs, self._batches, strict=True)
        found = [conditions.peak_bytes(run, self._device, batch.padded) for run, batch in pairs]
        return max((peak for peak in found if peak is not None), default=None)

    def _kernels(self) -> dict[str, str]:
        layouts: tuple[Layout, ...] = (Padded(self._rnn, self._batches[0]), Packed(self._rnn, self._batches[0]))
        return {each.name: conditions.kernel_family(each.run) for each in layouts}

    def _conditions(self, sampled: Sampled, kernels: dict[str, str]) -> TimingConditions:
        first = self._batches[0]
        return TimingConditions(
            device=conditions.device_name(self._device),
            dtype=str(first.padded.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            kernels=kernels,
            libraries=conditions.library_versions(self._device),
            batches=len(self._batches),
            sequences=sum(batch.sequences for batch in self._batches),
            steps=max(batch.padded.shape[0] for batch in self._batches),
            rows=sum(int(batch.lengths.sum()) for batch in self._batches),
            padded_rows=sum(batch.padded.shape[0] * batch.sequences for batch in self._batches),
            rounds=sampled.rounds,
            complete=sampled.complete,
            backward=self._backward,
        )


def _is_packed(layout: OverBatches) -> bool:
    return layout.name.startswith("packed")


def _forward(runs: Sequence[Run]) -> Callable[[], None]:
    def forward() -> None:
        for run in runs:
            run()

    return forward


@contextlib.contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Without the modes that the caller has on, which would be timed too, and without touching the random state.

    Autocast, anomaly detection, inference mode, and what sees each torch function or dispatched operation.
    """
    cast = [name for name in ("cpu", "cuda", "xpu", "mps") if torch.is_autocast_enabled(name)]
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    with contextlib.ExitStack() as modes:
        modes.enter_context(torch.random.fork_rng(devices=devices))
        modes.enter_context(torch.inference_mode(False))
        modes.enter_context(torch.autograd.set_detect_anomaly(False))
        for name in cast:
            modes.enter_context(torch.autocast(name, enabled=False))
        modes.enter_context(_disable_current_modes())
        modes.enter_context(torch._C.DisableTorchFunction())
        torch.manual_seed(seed)
        yield


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
