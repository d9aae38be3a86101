"""Whether counts on a device are those of the CPU, and layouts as exact there as here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

import rnncost
from rnncost.counting.spec import RnnSpec
from rnncost.integrations.torch_flops import RNN_FLOP_FORMULAS
from rnncost.timing.batch import SequenceBatch
from rnncost.timing.layouts import make_layout
from tests.builders import build_module, packed_batch, padded_batch
from tests.gpu.check import Check, passed_if

LENGTHS = (9, 7, 7, 4, 1)
SHUFFLED = (4, 9, 1, 7, 7)
LAYOUTS = ("packed+packing", "bucketed(1)", "bucketed(2)", "bucketed(5)", "loop")
# Outputs lie in -1 to 1. The strict comparison is in float64; in float32 a GPU may multiply in
# TF32, with ten bits of mantissa, and other kernels add in another order.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 5e-3, torch.float16: 2e-2}


class Counted(NamedTuple):
    """What was counted of one case, as plain integers."""

    tracked: dict[str, Any]
    estimated: dict[str, Any]
    counter_flops: int
    executed_flops: int
    verified: bool


def all_specs() -> list[RnnSpec]:
    """Every kind: plain, bidirectional, of two layers, both, and with a projection."""
    shapes: list[dict[str, Any]] = [{}, {"bidirectional": True}, {"num_layers": 2}]
    shapes.append({"num_layers": 2, "bidirectional": True})
    kinds: tuple[Any, ...] = ("lstm", "gru", "rnn_tanh")
    found = [RnnSpec(kind=kind, input_size=6, hidden_size=8, **shape) for kind in kinds for shape in shapes]
    projected = [
        RnnSpec(kind="lstm", input_size=6, hidden_size=8, proj_size=3, **shape) for shape in (shapes[0], shapes[3])
    ]
    return [*found, *projected]


def count(spec: RnnSpec, device: torch.device, *, packed: bool, backward: bool) -> Counted:
    """Counts one step of a layer on a device in each of the ways there are."""
    torch.manual_seed(0)
    rnn = build_module(spec).to(device)
    batch: Any = (packed_batch if packed else padded_batch)(LENGTHS, spec.input_size)
    batch = batch.to(device)
    lengths = None if packed else LENGTHS
    with rnncost.CostTracker(rnn, lengths=lengths, backward=backward) as tracker:
        _step(rnn, batch, backward=backward)
    layout: Any = "packed" if packed else "padded"
    estimated = rnncost.estimate(rnn, LENGTHS, layout=layout, backward=backward)
    with rnncost.CostTracker(rnn, lengths=lengths, verify=True) as verifying:
        _step(rnn, batch, backward=False)
    with FlopCounterMode(display=False, custom_mapping=RNN_FLOP_FORMULAS) as counter:
        _step(rnn, batch, backward=False)
    verification = verifying.report.verification
    return Counted(
        tracked=_plain(tracker.report),
        estimated=_plain(estimated),
        counter_flops=int(counter.get_total_flops()),
        executed_flops=tracker.report.forward.executed.flops,
        verified=verification is not None and verification.calls > 0 and verification.agrees,
    )


def _step(rnn: nn.Module, batch: Any, *, backward: bool) -> None:
    output = rnn(batch)[0]
    if backward:
        (output if isinstance(output, torch.Tensor) else output.data).sum().backward()


def _plain(report: rnncost.CostReport) -> dict[str, Any]:
    """Sums and costs of a report's only layer; names and samples are not counts."""
    (layer,) = report.layers
    costs = {"forward": layer.forward, "backward": layer.backward}
    return {
        "partial": report.partial,
        "calls": msgspec.to_builtins(layer.calls),
        "backward_calls": msgspec.to_builtins(layer.backward_calls),
        **{name: msgspec.to_builtins(cost) for name, cost in costs.items()},
    }


def counts_check(device: torch.device, specs: Sequence[RnnSpec]) -> Check:
    """Compares tracker, estimate, verification and torch's own counter on a device with the CPU's; integers."""
    wrong: list[str] = []
    cases = list(itertools.product(specs, (False, True), (False, True)))
    for spec, packed, backward in cases:
        here = count(spec, torch.device("cpu"), packed=packed, backward=backward)
        there = count(spec, device, packed=packed, backward=backward)
        name = f"{spec} {'packed' if packed else 'padded'}{' backward' if backward else ''}"
        wrong += [f"{name}: {what}" for what in differences(here, there)]
    text = (
        f"{len(cases)} cases counted by tracker, estimate, verification and FlopCounterMode with rnncost's formulas; "
        + ("all equal to the CPU's" if not wrong else f"{len(wrong)} differ: {'; '.join(wrong[:10])}")
    )
    figures: dict[str, Any] = {"cases": len(cases), "differences": len(wrong)}
    return Check(name="counts", outcome=passed_if(not wrong), text=text, figures=figures)


def differences(here: Counted, there: Counted) -> Iterator[str]:
    """What does not agree between the CPU and a device, or on the device between one way of counting and another."""
    for key, value in here.tracked.items():
        if there.tracked[key] != value:
            yield f"{key} is {there.tracked[key]}, on the CPU {value}"
    for key in ("forward", "backward"):
        if there.estimated[key] != there.tracked[key]:
            yield f"the estimate of {key} is {there.estimated[key]}, tracked {there.tracked[key]}"
    if not there.verified:
        yield "the kernels that ran are not those counted"
    if there.counter_flops != there.executed_flops:
        yield f"FlopCounterMode says {there.counter_flops}, executed {there.executed_flops} FLOPs"


def exactness(dtype: torch.dtype) -> str:
    """What the check of a dtype is called."""
    return f"exact layouts in {str(dtype).removeprefix('torch.')}"


def exactness_check(device: torch.device, dtype: torch.dtype, specs: Sequence[RnnSpec]) -> Check:
    """Largest difference of any exact layout's outputs and final hidden states from a packed run's."""
    worst, where = 0.0, ""
    for spec in specs:
        torch.manual_seed(0)
        rnn = build_module(spec).to(device=device, dtype=dtype)
        batch = SequenceBatch(rnn, SHUFFLED)
        packed = pack_padded_sequence(batch.padded, torch.tensor(SHUFFLED), enforce_sorted=False)
        with torch.no_grad():
            output, final = rnn(packed)
            hidden = final[0] if isinstance(final, tuple) else final
            for name in LAYOUTS:
                found = make_layout(name, rnn, batch).run()
                difference = _difference(found, (pad_packed_sequence(output)[0], hidden))
                if difference > worst:
                    worst, where = difference, f" ({spec}, {name})"
    tolerance = TOLERANCES[dtype]
    text = f"outputs of {', '.join(LAYOUTS)} differ from packed by {worst:.2g} at most{where}; allowed {tolerance:g}"
    figures: dict[str, Any] = {"largest_difference": worst, "tolerance": tolerance}
    return Check(name=exactness(dtype), outcome=passed_if(worst <= tolerance), text=text, figures=figures)


def _difference(found: tuple[torch.Tensor, ...], truth: tuple[torch.Tensor, ...]) -> float:
    """The largest difference at real steps and in final states."""
    steps = torch.arange(truth[0].shape[0]).unsqueeze(1)
    real = (steps < torch.tensor(SHUFFLED)).to(truth[0].device)
    outputs = (found[0] - truth[0])[real].abs().max()
    largest = float(torch.maximum(outputs, (found[1] - truth[1]).abs().max()))
    return math.inf if math.isnan(largest) else largest
