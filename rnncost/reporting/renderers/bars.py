"""What becomes of a layer's padded multiplications, as the parts of a bar."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rnncost.reporting.costs import Costs

# What each part of a bar is called, in the order in which they are drawn.
LEGEND = {
    "useful": "useful",
    "wasted": "wasted on padding",
    "unknown": "useful or wasted, unknown",
    "extra": "more than padded",
    "saved": "saved",
}
PARTS = tuple(LEGEND)


class BarParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a bar, in mults and in the order of :data:`PARTS`; none is negative.

    Attributes:
        useful: executed on real steps.
        wasted: executed on padding.
        unknown: executed, useful or wasted: the true lengths are not known.
        extra: executed beyond the padded equivalent, where less than nothing was saved.
        saved: padded, not executed.
    """

    useful: int = 0
    wasted: int = 0
    unknown: int = 0
    extra: int = 0
    saved: int = 0

    @classmethod
    def of(cls, costs: Costs) -> BarParts:
        """The parts of these costs; together as many as were executed or padded, whichever is more."""
        executed, saved = costs.executed.mults, costs.saved.mults
        extra = max(0, -saved)
        within = executed - extra
        if costs.wasted is None:
            return cls(unknown=within, extra=extra, saved=max(0, saved))
        # What goes beyond the padded rectangle is drawn as such, and not again as wasted.
        wasted = min(max(0, costs.wasted.mults - extra), within)
        return cls(useful=within - wasted, wasted=wasted, extra=extra, saved=max(0, saved))

    @property
    def mults(self) -> tuple[int, ...]:
        """The parts in order."""
        return (self.useful, self.wasted, self.unknown, self.extra, self.saved)

    @property
    def total(self) -> int:
        """Length of the bar."""
        return sum(self.mults)


def columns(parts: Sequence[int], *, longest: int, width: int) -> tuple[int, ...]:
    """How many columns each part of a bar gets, where a bar of ``longest`` gets ``width``.

    What is there gets at least one column, however little it is: nothing is rounded away.
    ``width`` is at least the number of parts.
    """
    total = sum(parts)
    if not total:
        return (0,) * len(parts)
    there = sum(1 for part in parts if part)
    whole = max((2 * width * total + longest) // (2 * longest), there)
    shown = [max(part * whole // total, min(part, 1)) for part in parts]

    def lacks(index: int) -> int:
        return parts[index] * whole - shown[index] * total

    while sum(shown) < whole:
        shown[max(range(len(parts)), key=lacks)] += 1
    while sum(shown) > whole:
        shown[min((index for index, number in enumerate(shown) if number > 1), key=lacks)] -= 1
    return tuple(shown)
