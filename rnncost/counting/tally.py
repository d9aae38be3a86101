"""Sums over calls: all that is ever recorded of a run, since every cost is linear in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from rnncost.counting.kinds import BackwardKind, CallKind
from rnncost.counting.shape import BatchShape

Natural = Annotated[int, msgspec.Meta(ge=0)]


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the calls of one recurrent module. ``Tally()`` is the empty sum, ``+`` adds.

    T is a call's number of steps, N its number of rows, b_t its batch size at step t, B = b_0. A
    field whose name begins with ``packed_`` speaks of the same sequences run packed and is
    ``None`` once a padded batch of unknown lengths is among them.

    Attributes:
        calls: calls of the module.
        passes: of calls whose backward ran: the backward passes they belonged to.
        sequences: ΣB.
        steps: ΣT.
        rows: ΣN, the rows executed: Σ batch_sizes packed, B·T padded.
        padded_rows: Σ B·T of the padded equivalent.
        packed_rows: Σ lengths.
        first_rows: Σb_0.
        last_rows: Σb_{T−1}.
        step_rows: ΣT·N.
        shrink_rows: Σb_t over the steps after which sequences end, but for the last step.
        slice_rows: ΣB·(number of different batch sizes − 1).
        padded_steps: ΣT of the padded equivalent.
        packed_steps: Σ longest length.
        packed_last_rows: last_rows of the packed equivalent.
        packed_step_rows: step_rows of the packed equivalent.
        packed_shrink_rows: shrink_rows of the packed equivalent.
        packed_slice_rows: slice_rows of the packed equivalent.
    """

    calls: Natural = 0
    passes: Natural = 0
    sequences: Natural = 0
    steps: Natural = 0
    rows: Natural = 0
    padded_rows: Natural = 0
    packed_rows: Natural | None = 0
    first_rows: Natural = 0
    last_rows: Natural = 0
    step_rows: Natural = 0
    shrink_rows: Natural = 0
    slice_rows: Natural = 0
    padded_steps: Natural = 0
    packed_steps: Natural | None = 0
    packed_last_rows: Natural | None = 0
    packed_step_rows: Natural | None = 0
    packed_shrink_rows: Natural | None = 0
    packed_slice_rows: Natural | None = 0

    @classmethod
    def of(cls, shape: BatchShape) -> Tally:
        """The tally of one call on a batch of this shape."""
        rectangle = {"last_rows": shape.sequences, "step_rows": shape.steps * shape.rows}
        packed = _packed_sums(shape)
        executed = {name: packed[f"packed_{name}"] for name in _PACKED} if shape.packed else rectangle
        return cls(
            calls=1,
            sequences=shape.sequences,
            steps=shape.steps,
            rows=shape.rows,
            padded_rows=shape.padded_rows,
            first_rows=shape.sequences,
            padded_steps=shape.padded_steps,
            **executed,
            **packed,
        )

    def __add__(self, other: Tally) -> Tally:
        sums: dict[str, Any] = {
            name: _add(getattr(self, name), getattr(other, name)) for name in Tally.__struct_fields__
        }
        return Tally(**sums)

    def as_padded(self) -> Tally:
        """The same sequences, each batch run as its padded rectangle."""
        # No padded cost depends on ΣT·N, so that sum is left out rather than recorded.
        return msgspec.structs.replace(
            self,
            steps=self.padded_steps,
            rows=self.padded_rows,
            last_rows=self.sequences,
            step_rows=0,
            shrink_rows=0,
            slice_rows=0,
        )

    def as_packed(self) -> Tally | None:
        """The same sequences, each batch run packed; ``None`` where lengths are unknown."""
        sums: dict[str, Any] = {name: getattr(self, f"packed_{name}") for name in ("rows", "steps", *_PACKED)}
        return None if None in sums.values() else msgspec.structs.replace(self, **sums)


class CallTally(msgspec.Struct, frozen=True, kw_only=True):
    """The forward calls of one kind: their sums."""

    kind: CallKind
    forward: Tally


class BackwardTally(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one kind whose backward ran, once for each time that it did: their sums."""

    kind: BackwardKind
    backward: Tally


def merge_calls(calls: Iterable[CallTally]) -> tuple[CallTally, ...]:
    """One tally for each kind of call, in the order of the kinds."""
    sums: dict[CallKind, Tally] = {}
    for call in calls:
        sums[call.kind] = sums.get(call.kind, Tally()) + call.forward
    return tuple(CallTally(kind=kind, forward=sums[kind]) for kind in sorted(sums))


def merge_backwards(calls: Iterable[BackwardTally]) -> tuple[BackwardTally, ...]:
    """One tally for each kind of backward, in the order of the kinds."""
    sums: dict[BackwardKind, Tally] = {}
    for call in calls:
        sums[call.kind] = sums.get(call.kind, Tally()) + call.backward
    return tuple(BackwardTally(kind=kind, backward=sums[kind]) for kind in sorted(sums))


_PACKED = ("last_rows", "step_rows", "shrink_rows", "slice_rows")


def _packed_sums(shape: BatchShape) -> dict[str, Any]:
    counts, rows, longest, last = shape.length_counts, shape.packed_rows, shape.longest, shape.longest_sequences
    if counts is None or rows is None or longest is None or last is None:
        return dict.fromkeys(f"packed_{name}" for name in ("rows", "steps", *_PACKED))
    running, shrinking = 0, 0
    for _, number in counts:
        running += number
        shrinking += running
    return {
        "packed_rows": rows,
        "packed_steps": longest,
        "packed_last_rows": last,
        "packed_step_rows": longest * rows,
        # Sequences end after as many steps as there are different lengths, the last step among them.
        "packed_shrink_rows": shrinking - last,
        "packed_slice_rows": max(0, len(counts) - 1) * shape.sequences,
    }


def _add(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right
