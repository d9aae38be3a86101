"""Sums over calls: all that is ever recorded of a run, since every cost is linear in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from rnncost.counting.shape import BatchShape

Natural = Annotated[int, msgspec.Meta(ge=0)]


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the calls of one recurrent module. ``Tally()`` is the empty sum, ``+`` adds.

    T is a call's number of steps, N its number of rows, b_t its batch size at step t. A field
    whose name begins with ``packed_`` speaks of the same sequences run packed and is ``None``
    once a padded batch of unknown lengths is among them.

    Attributes:
        calls: calls of the module.
        sequences: ΣB.
        steps: ΣT.
        rows: ΣN, the rows executed: Σ batch_sizes packed, B·T padded.
        padded_rows: Σ B·T of the padded equivalent.
        packed_rows: Σ lengths.
        first_rows: Σb_0.
        last_rows: Σb_{T−1}.
        step_rows: ΣT·N.
        padded_steps: ΣT of the padded equivalent.
        packed_steps: Σ longest length.
        packed_last_rows: Σ number of sequences as long as the longest.
        packed_step_rows: Σ longest length · Σ lengths, call by call.
    """

    calls: Natural = 0
    sequences: Natural = 0
    steps: Natural = 0
    rows: Natural = 0
    padded_rows: Natural = 0
    packed_rows: Natural | None = 0
    first_rows: Natural = 0
    last_rows: Natural = 0
    step_rows: Natural = 0
    padded_steps: Natural = 0
    packed_steps: Natural | None = 0
    packed_last_rows: Natural | None = 0
    packed_step_rows: Natural | None = 0

    @classmethod
    def of(cls, shape: BatchShape) -> Tally:
        """The tally of one call on a batch of this shape."""
        packed_rows, longest = shape.packed_rows, shape.longest
        known = packed_rows is not None and longest is not None
        sizes_end = shape.longest_sequences if shape.packed else shape.sequences
        return cls(
            calls=1,
            sequences=shape.sequences,
            steps=shape.steps,
            rows=shape.rows,
            padded_rows=shape.padded_rows,
            packed_rows=packed_rows,
            first_rows=shape.sequences if shape.steps else 0,
            last_rows=(sizes_end or 0) if shape.steps else 0,
            step_rows=shape.steps * shape.rows,
            padded_steps=shape.padded_steps,
            packed_steps=longest,
            packed_last_rows=shape.longest_sequences,
            packed_step_rows=(longest or 0) * (packed_rows or 0) if known else None,
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
            first_rows=self.sequences,
            last_rows=self.sequences,
            step_rows=0,
        )

    def as_packed(self) -> Tally | None:
        """The same sequences, each batch run packed; ``None`` where lengths are unknown."""
        if (
            self.packed_rows is None
            or self.packed_steps is None
            or self.packed_last_rows is None
            or self.packed_step_rows is None
        ):
            return None
        return msgspec.structs.replace(
            self,
            steps=self.packed_steps,
            rows=self.packed_rows,
            first_rows=self.sequences,
            last_rows=self.packed_last_rows,
            step_rows=self.packed_step_rows,
        )


def _add(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


class CallKind(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What makes calls of one module differ in cost, beside their shapes.

    Attributes:
        packed: the input was a ``PackedSequence``.
    """

    packed: bool


class CallTally(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one kind: their sums."""

    kind: CallKind
    forward: Tally


def merge_calls(calls: Iterable[CallTally]) -> tuple[CallTally, ...]:
    """One tally for each kind of call, in the order of the kinds."""
    sums: dict[CallKind, Tally] = {}
    for call in calls:
        sums[call.kind] = sums.get(call.kind, Tally()) + call.forward
    return tuple(CallTally(kind=kind, forward=sums[kind]) for kind in sorted(sums))
