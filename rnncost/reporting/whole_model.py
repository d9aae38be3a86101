"""What part of a whole model its recurrent layers are, as plain data."""

from __future__ import annotations

import msgspec

from rnncost.reporting.costs import share
from rnncost.units import format_count, format_fraction, printable


class PositionWise(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that works on each step by itself, and ran on padding after a recurrent layer.

    Attributes:
        name: dotted name.
        type_name: its class.
        rows: steps that it computed, filler included.
        real_rows: steps that are real.
        macs: MACs that it executed; 0 for layers without products (layer norm, embedding).
    """

    name: str
    type_name: str
    rows: int
    real_rows: int
    macs: int

    @property
    def wasted_macs(self) -> int:
        """MACs that running it on ``packed.data`` would save."""
        return self.macs * (self.rows - self.real_rows) // self.rows if self.rows else 0

    def merge(self, other: PositionWise) -> PositionWise:
        """Both runs together."""
        return msgspec.structs.replace(
            self,
            rows=self.rows + other.rows,
            real_rows=self.real_rows + other.real_rows,
            macs=self.macs + other.macs,
        )

    def __str__(self) -> str:
        work = f"{format_count(self.wasted_macs)} MACs" if self.macs else f"{self.rows - self.real_rows:,} rows"
        return (
            f"{printable(self.name)} ({printable(self.type_name)}) ran on {self.rows:,} padded rows, "
            f"{self.real_rows:,} of them real: on packed.data it would save {work}"
        )


class WholeModel(msgspec.Struct, frozen=True, kw_only=True):
    """One batch through the whole model, in MACs.

    Attributes:
        counter: who counted the whole: ``fvcore`` with rnncost's handles, or, where its tracing
            failed, ``FlopCounterMode`` with rnncost's formulas.
        total_macs: MACs of the whole model, as that counter defines them.
        recurrent_macs: MACs of the recurrent layers among them.
        saved_macs: recurrent MACs that packing saved.
        position_wise: layers that ran on padding after a recurrent layer.
        reason: why fvcore could not count, where it could not.
    """

    counter: str
    total_macs: int
    recurrent_macs: int
    saved_macs: int
    position_wise: tuple[PositionWise, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        saved = share(self.saved_macs, self.total_macs + self.saved_macs)
        part = format_fraction(share(self.recurrent_macs, self.total_macs))
        reason = f"; fvcore could not trace it: {self.reason}" if self.reason else ""
        return (
            f"Whole model, first batch: recurrent layers are {part} of {self.total_macs:,} MACs "
            f"({self.counter}{reason}); packing saved {format_fraction(saved)} of the model"
        )
