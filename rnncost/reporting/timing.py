"""What a layer's layouts took, as plain data."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rnncost.counting.tally import Natural
from rnncost.units import format_fraction

# In 1 of 16 runs all of five rounds fall on one side of their median: no interval of 95 % then.
VERDICT_ROUNDS = 6
# Beyond it lies infinity, which JSON cannot hold; it is thirty thousand years.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class RunTime(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of one layer took in the user's own run: sums, so that ``+`` adds.

    On an accelerator it is the time between two events on the stream of the call, on the CPU wall
    time. The time of watched modules that a module calls is theirs and not its own.

    Attributes:
        device: type of the device whose clock it is, as in ``cpu`` or ``cuda``; ``cpu+cuda`` where both took part.
        forward_calls: forward calls that were timed, also those recomputed in a backward pass.
        forward_s: seconds that they took together.
        backward_calls: calls whose backward was timed, once for each pass.
        backward_s: seconds that they took together.
        backward_untimed: calls whose backward ran, but whose end in its pass could not be told.
        verified_calls: of ``forward_calls``, those in which every torch function was watched and so slower.
    """

    device: str
    forward_calls: Natural
    forward_s: Seconds
    backward_calls: Natural = 0
    backward_s: Seconds = 0.0
    backward_untimed: Natural = 0
    verified_calls: Natural = 0

    def __add__(self, other: RunTime) -> RunTime:
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__ if name != "device"}
        devices = {*self.device.split("+"), *other.device.split("+")}
        return RunTime(device="+".join(sorted(devices)), **sums)

    @property
    def total_s(self) -> float:
        """Seconds of both directions."""
        return self.forward_s + self.backward_s


class LayoutTiming(msgspec.Struct, frozen=True, kw_only=True):
    """One layout of one layer, timed. Seconds are medians over rounds.

    Attributes:
        layout: ``padded``, ``packed``, ``packed+packing``, ``bucketed(k)``, ``split``, ``loop`` or ``mask``.
        exact: outputs at real steps and final hidden states are those of a packed run.
        groups: sequences of each padded group, batch after batch; empty where batches are not grouped.
        rows: rows that it runs, real and filler; those of ``padded`` are B·T.
        forward_s: seconds of the forward pass.
        backward_s: seconds of the backward pass; ``None`` where it was not timed.
        total_s: seconds of both, timed together.
        ratio_to_padded: ``total_s`` over that of ``padded``, taken round by round.
        ratio_low: lower end of its 95 % interval.
        ratio_high: upper end.
        verdict: ``faster``, ``slower``, ``same`` (inside ±3 %) or ``unclear``.
        peak_bytes: memory at its peak; on the CPU inputs, outputs and saved activations alone.
        flops_per_s: executed forward and backward FLOPs (2 a MAC) over ``total_s``.
        predicted_s: for ``split``, what the cost model predicted relative to padded, times the seconds of padded.
    """

    layout: str
    exact: bool
    groups: tuple[int, ...] = ()
    rows: int
    forward_s: float
    backward_s: float | None
    total_s: float
    ratio_to_padded: float
    ratio_low: float
    ratio_high: float
    verdict: str
    peak_bytes: int | None = None
    flops_per_s: float | None = None
    predicted_s: float | None = None


class TimingConditions(msgspec.Struct, frozen=True, kw_only=True):
    """Under what conditions a layer was timed.

    Attributes:
        device: name of the device.
        dtype: of data and weights.
        threads: threads that torch used on the CPU.
        kernels: kernel family that ran: ``oneDNN``, ``native`` or ``cuDNN``, for padded and packed runs.
        libraries: releases of torch and of the kernel library.
        batches: how many batches were run, one after another; all seconds are of all of them.
        sequences: B, of all batches together.
        steps: T of the longest.
        rows: real rows of all batches.
        padded_rows: B·T, of all batches together.
        rounds: interleaved rounds.
        complete: whether the rounds ended of themselves.
        backward: whether the backward was timed.
    """

    device: str
    dtype: str
    threads: int
    kernels: dict[str, str]
    libraries: dict[str, str]
    batches: int
    sequences: int
    steps: int
    rows: int
    padded_rows: int
    rounds: int
    complete: bool
    backward: bool


def realised_savings(timing: LayoutTiming, conditions: TimingConditions) -> tuple[float, float]:
    """What a layout saves of the operations of padded, and of its time; either may be negative.

    Operations are those that grow with the rows: all multiplications of the forward.
    """
    return 1 - timing.rows / conditions.padded_rows, 1 - timing.ratio_to_padded


def recommended(timings: tuple[LayoutTiming, ...], best: str | None) -> LayoutTiming | None:
    """The timing that stands for the best layout: of ``packed``, the one that pays for its packing."""
    order = ("packed+packing", "packed") if best == "packed" else (best,)
    return next((each for layout in order for each in timings if each.layout == layout), None)


def advice(
    timings: tuple[LayoutTiming, ...], conditions: TimingConditions, best: str | None, *, cell_state: bool
) -> str:
    """What a person needs to know of a layer's timing, from its figures alone.

    Args:
        timings: of its layouts.
        conditions: under which they were taken.
        best: the layout to use.
        cell_state: whether the layer has one (an LSTM).
    """
    parts = []
    packed = next((each for each in timings if each.layout == "packed"), None)
    if packed is not None:
        saved, _ = realised_savings(packed, conditions)
        parts.append(f"packed runs {format_fraction(saved)} fewer multiplications than padded and {_speed(packed)}")
        if packed.verdict == "slower" and conditions.kernels["padded"] != conditions.kernels["packed"]:
            parts[-1] += f": its path is {conditions.kernels['packed']}, not {conditions.kernels['padded']}"
    chosen = recommended(timings, best)
    if chosen is None:
        parts.append("no exact layout was timed")
    else:
        groups = _groups(chosen.groups, conditions.batches)
        parts.append(
            f"Fastest with the results of a packed run: {best}{groups} ({chosen.ratio_to_padded:.2f}x of padded, "
            f"95 % interval {chosen.ratio_low:.2f} to {chosen.ratio_high:.2f}{_predicted(chosen, timings)})"
            f"{_not_told_apart(chosen, timings)}"
        )
        if chosen.groups and cell_state:
            parts.append("not for a model that reads an LSTM's final cell states, which padded groups do not give")
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."


def _speed(timing: LayoutTiming) -> str:
    ratio = timing.ratio_to_padded
    if timing.verdict in ("slower", "faster"):
        return f"takes {ratio:.2f}x of its time"
    return "takes the same time" if timing.verdict == "same" else f"the difference in time is unclear ({ratio:.2f}x)"


def _not_told_apart(chosen: LayoutTiming, timings: tuple[LayoutTiming, ...]) -> str:
    """The other exact layouts whose interval meets that of the chosen one."""
    # As in the choice itself, packed with its packing stands for both.
    unpaid = {"packed"} if any(each.layout == "packed+packing" for each in timings) else set()
    others = [
        each.layout
        for each in timings
        if each.exact and each is not chosen and each.ratio_low <= chosen.ratio_high and each.layout not in unpaid
    ]
    return f"; not told apart from {', '.join(others)}" if others else ""


def _predicted(chosen: LayoutTiming, timings: tuple[LayoutTiming, ...]) -> str:
    padded_s = next((each.total_s for each in timings if each.layout == "padded"), None)
    if chosen.predicted_s is None or not padded_s:
        return ""
    return f", predicted {chosen.predicted_s / padded_s:.2f}"


def _groups(groups: tuple[int, ...], batches: int) -> str:
    if not groups:
        return ""
    if batches > 1:
        return f", {len(groups)} groups in {batches} batches"
    return ", one group run exactly" if len(groups) == 1 else f", groups of {_sizes(groups)}"


def _sizes(groups: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, groups[:8]))
    return shown if len(groups) <= 8 else f"{shown}, and {len(groups) - 8} more"
