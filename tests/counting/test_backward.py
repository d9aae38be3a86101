"""Backward formulas against the operations that autograd dispatches."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from rnncost.counting import BatchShape, OpCount, RnnSpec, Tally, formulas
from rnncost.counting.kinds import BackwardKind
from tests.builders import build_module, packed_batch, padded_batch
from tests.counting.test_formulas import KINDS, any_lengths, any_spec, specs
from tests.oracle import dispatched, same_operations


def dispatched_backward(spec: RnnSpec, lengths: tuple[int, ...], kind: BackwardKind, *, batch_first: bool) -> OpCount:
    """Runs one call as ``kind`` says, and counts what its backward dispatches."""
    dropout = {0: 0.0, 1: 1.0, 2: 0.5}[kind.dropout_mults]
    module = build_module(spec, batch_first=batch_first, dropout=dropout)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in kind.frozen)
    batch: Any = (packed_batch if kind.packed else padded_batch)(
        lengths,
        spec.input_size,
        batch_first=batch_first,
        **({"enforce_sorted": not kind.unsorted} if kind.packed else {}),
    )
    (batch.data if kind.packed else batch).requires_grad_(kind.input_grad)
    layers = spec.num_layers * spec.directions
    hidden = torch.zeros(layers, len(lengths), spec.output_size, requires_grad=kind.state_grad)
    cell = torch.zeros(layers, len(lengths), spec.hidden_size, requires_grad=kind.cell_grad)
    with dispatched() as ops:
        output, final = module(batch, (hidden, cell) if spec.kind == "lstm" else hidden)
        ops.count = OpCount()
        torch.autograd.backward(*_gradients(kind, output, final))
    return ops.count


def _gradients(kind: BackwardKind, output: Any, final: Any) -> tuple[list[Tensor], list[Tensor]]:
    final_state, final_cell = final if isinstance(final, tuple) else (final, None)
    flags = (kind.through_output, kind.through_state, kind.through_cell)
    tensors = (output.data if isinstance(output, PackedSequence) else output, final_state, final_cell)
    reached = [tensor for flag, tensor in zip(flags, tensors, strict=True) if flag]
    return reached, [torch.empty_like(tensor) for tensor in reached]


def check(spec: RnnSpec, lengths: tuple[int, ...], kind: BackwardKind, *, batch_first: bool = False) -> None:
    seen = dispatched_backward(spec, lengths, kind, batch_first=batch_first)
    counted = formulas.backward(
        spec, kind, Tally(passes=1) + Tally.of(BatchShape.from_lengths(lengths, packed=kind.packed))
    )
    assert counted.accumulate_adds >= 0
    assert same_operations(counted, seen), f"\ncounted {counted}\nseen    {seen}"


def through(kind: str) -> list[tuple[bool, bool, bool]]:
    flags = itertools.product((True, False), repeat=3 if kind == "lstm" else 2)
    return [(*flag, False)[:3] for flag in flags if any(flag)]  # type: ignore[misc]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("spec", [spec for kind in KINDS for spec in specs(kind)], ids=str)
def test_every_combination_against_dispatch(spec: RnnSpec, packed: bool) -> None:
    for (output, state, cell), input_grad, state_grad in itertools.product(
        through(spec.kind), (False, True), (False, True)
    ):
        kind = BackwardKind(
            packed=packed,
            input_grad=input_grad,
            state_grad=state_grad,
            cell_grad=state_grad and spec.kind == "lstm",
            through_output=output,
            through_state=state,
            through_cell=cell,
        )
        check(spec, (5, 4, 4, 1), kind)


@st.composite
def any_backward(draw: st.DrawFn) -> tuple[RnnSpec, BackwardKind]:
    spec = draw(any_spec())
    packed, lstm = draw(st.booleans()), spec.kind == "lstm"
    names = [name for name, _ in build_module(spec).named_parameters()]
    frozen = draw(st.lists(st.sampled_from(names), unique=True)) if draw(st.booleans()) else []
    output, state, cell = draw(st.sampled_from(through(spec.kind)))
    kind = BackwardKind(
        packed=packed,
        unsorted=packed and draw(st.booleans()),
        dropout_mults=draw(st.sampled_from([0, 0, 1, 2])) if spec.num_layers > 1 else 0,
        input_grad=draw(st.booleans()),
        state_grad=draw(st.booleans()),
        cell_grad=lstm and draw(st.booleans()),
        frozen=tuple(sorted(frozen)),
        through_output=output,
        through_state=state,
        through_cell=cell,
    )
    return spec, kind


def within_bounds(spec: RnnSpec, kind: BackwardKind) -> bool:
    """Whether a gradient enters the gates of the first step, as the docstring of ``backward`` demands."""
    parts = [name for name, _ in build_module(spec).named_parameters() if not name.startswith("weight_hr")]
    first = {name.removesuffix("_reverse") for name in parts if "_l0" in name}
    free = all(
        any(name + suffix not in kind.frozen for name in first) for suffix in ("", "_reverse")[: spec.directions]
    )
    return kind.input_grad or kind.state_grad or free


@settings(max_examples=400)
@given(drawn=any_backward(), lengths=any_lengths, batch_first=st.booleans())
def test_drawn_sizes_against_dispatch(
    drawn: tuple[RnnSpec, BackwardKind], lengths: tuple[int, ...], batch_first: bool
) -> None:
    spec, kind = drawn
    if within_bounds(spec, kind):
        check(spec, lengths, kind, batch_first=batch_first)
