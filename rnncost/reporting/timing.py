"""What a layer's layouts took, as plain data."""

from __future__ import annotations

import msgspec


class LayoutTiming(msgspec.Struct, frozen=True, kw_only=True):
    """One layout of one layer, timed. Seconds are medians over rounds.

    Attributes:
        layout: ``padded``, ``packed``, ``packed+packing``, ``bucketed(k)``, ``split``, ``loop`` or ``mask``.
        exact: outputs at real steps and final hidden states are those of a packed run.
        groups: sequences of each padded group; empty where the batch is not grouped.
        forward_s: seconds of the forward pass.
        backward_s: seconds of the backward pass; ``None`` where it was not timed.
        total_s: seconds of both, timed together.
        ratio_to_padded: ``total_s`` over that of ``padded``, taken round by round.
        ratio_low: lower end of its 95 % interval.
        ratio_high: upper end.
        verdict: ``faster``, ``slower``, ``same`` (inside ±3 %) or ``unclear``.
        peak_bytes: memory at its peak; on the CPU inputs, outputs and saved activations alone.
        flops_per_s: executed forward and backward FLOPs (2 a MAC) over ``total_s``.
        predicted_s: what the cost model predicted, for ``split``.
    """

    layout: str
    exact: bool
    groups: tuple[int, ...] = ()
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
        sequences: B of the batch.
        steps: T of the batch.
        rows: real rows of the batch.
        rounds: interleaved rounds.
        complete: whether the rounds ended of themselves.
        backward: whether the backward was timed.
    """

    device: str
    dtype: str
    threads: int
    kernels: dict[str, str]
    libraries: dict[str, str]
    sequences: int
    steps: int
    rows: int
    rounds: int
    complete: bool
    backward: bool
