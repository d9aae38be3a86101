"""The same work in three layouts, and the differences that people ask for."""

from __future__ import annotations

import msgspec

from rnncost.counting.opcount import OpCount


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Operations as executed, as the padded rectangle, and as the real steps alone.

    Attributes:
        executed: what really ran.
        padded: what the same batches cost as padded rectangles.
        packed: what their real steps cost; ``None`` where the true lengths are unknown.
    """

    executed: OpCount = OpCount()
    padded: OpCount = OpCount()
    packed: OpCount | None = OpCount()

    @property
    def saved(self) -> OpCount:
        """Padded less executed; may be negative."""
        return self.padded - self.executed

    @property
    def wasted(self) -> OpCount | None:
        """Executed less packed: padding that was computed. ``None`` where lengths are unknown."""
        return None if self.packed is None else self.executed - self.packed

    @property
    def saved_fraction(self) -> float | None:
        """Saved multiplications as a share of the padded ones; ``None`` where nothing ran."""
        return share(self.saved.mults, self.padded.mults)

    @property
    def wasted_fraction(self) -> float | None:
        """Wasted multiplications as a share of those executed; ``None`` if nothing ran or lengths are unknown."""
        return None if self.wasted is None else share(self.wasted.mults, self.executed.mults)

    def __add__(self, other: Costs) -> Costs:
        packed = None if self.packed is None or other.packed is None else self.packed + other.packed
        return Costs(executed=self.executed + other.executed, padded=self.padded + other.padded, packed=packed)


class CostView(msgspec.Struct, frozen=True, kw_only=True):
    """The figures that a layer and a whole report have in common."""

    @property
    def forward(self) -> Costs:
        """Operations of the forward passes in the three layouts."""
        raise NotImplementedError

    @property
    def backward(self) -> Costs:
        """Operations of the backward passes that ran, where they were watched."""
        raise NotImplementedError

    @property
    def costs(self) -> Costs:
        """Forward and backward together."""
        return self.forward + self.backward

    @property
    def executed(self) -> OpCount:
        """What really ran."""
        return self.costs.executed

    @property
    def padded(self) -> OpCount:
        """The same batches as padded rectangles."""
        return self.costs.padded

    @property
    def packed(self) -> OpCount | None:
        """Their real steps alone; ``None`` where lengths are unknown."""
        return self.costs.packed

    @property
    def saved(self) -> OpCount:
        """Padded less executed; may be negative."""
        return self.costs.saved

    @property
    def wasted(self) -> OpCount | None:
        """Executed less packed; ``None`` where lengths are unknown."""
        return self.costs.wasted

    @property
    def saved_fraction(self) -> float | None:
        """Saved multiplications as a share of the padded ones; ``None`` where nothing ran."""
        return self.costs.saved_fraction

    @property
    def wasted_fraction(self) -> float | None:
        """Wasted multiplications as a share of those executed; ``None`` if nothing ran or lengths are unknown."""
        return self.costs.wasted_fraction


def share(part: int, whole: int) -> float | None:
    """``part / whole``, or ``None`` where there is no whole to have a share of."""
    return part / whole if whole else None
