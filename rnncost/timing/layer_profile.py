"""The timing of one recurrent layer on one batch."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
import torch
from torch import Tensor, nn

from rnncost.counting import formulas
from rnncost.counting.kinds import BackwardKind
from rnncost.counting.shape import BatchShape
from rnncost.counting.tally import Tally
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.timing import LayoutTiming, TimingConditions
from rnncost.timing import conditions
from rnncost.timing.batch import SequenceBatch, private_copy
from rnncost.timing.clock import Clock, clock_for
from rnncost.timing.exact import ExactGroup, run_exact
from rnncost.timing.layouts import Grouped, Layout, Packed, Padded, bucket_count, equal_groups, make_layout
from rnncost.timing.sampling import Sampled, sample
from rnncost.timing.split import GroupTime, best_split, fit_group_time
from rnncost.tracking import stock

SPLIT = "split"
_MEASUREMENTS = 3


class LayerProfile:
    """The timing of one layer on one batch.

    Args:
        rnn: the layer; a private copy of it is run.
        lengths: of the batch.
        backward: time the backward too.
        seed: of data and order.
        device: where to run; by default where the layer is.
        clock: the device's clock by default.
    """

    def __init__(
        self,
        rnn: nn.RNNBase,
        lengths: Sequence[int],
        *,
        backward: bool,
        seed: int = 0,
        device: torch.device | str | None = None,
        clock: Clock | None = None,
    ) -> None:
        spec = stock.read_spec(rnn)
        assert spec is not None
        with _alone(seed):
            self._rnn = private_copy(rnn, device=device)
            self._batch = SequenceBatch(self._rnn, lengths, seed=seed)
        trained = any(parameter.requires_grad for parameter in self._rnn.parameters())
        self._spec, self._backward, self._seed = spec, backward and trained, seed
        self._device = next(self._rnn.parameters()).device
        self._clock = clock or clock_for(self._device)

    def timed(self, layer: LayerCost, *, layouts: Sequence[str], budget_s: float) -> LayerCost:
        """``layer`` with its timings, its conditions and the layout to use.

        A layer of which no weight requires grad is timed forward alone.
        """
        deadline = time.monotonic() + budget_s
        with _alone(self._seed), torch.set_grad_enabled(self._backward):
            made, predicted_s = self._make(layouts)
            sampled = self._sample(made, max(0.0, deadline - time.monotonic()))
            timings = tuple(self._timing(each, sampled, predicted_s) for each in made)
            found = self._conditions(sampled)
        return msgspec.structs.replace(layer, timings=timings, conditions=found, best_layout=best_layout(timings))

    def _make(self, names: Sequence[str]) -> tuple[list[Layout], float | None]:
        made: list[Layout] = [Padded(self._rnn, self._batch)]
        predicted_s = None
        for name in dict.fromkeys(names):
            if name == "padded" or (bucket_count(name) or 0) > self._batch.sequences:
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


@contextlib.contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Out of sight of torch function modes and of inference mode, and without touching the random state."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch._C.DisableTorchFunction():
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
