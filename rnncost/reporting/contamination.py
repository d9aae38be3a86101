"""What padding does to results, as plain data."""

from __future__ import annotations

import msgspec

from rnncost.counting.spec import RnnSpec
from rnncost.units import printable

_TITLES = {"output": "outputs at real steps", "hidden": "final hidden states", "cell": "final cell states"}


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Padded against packed, for one tensor of one layer and direction.

    Attributes:
        what: ``output`` at real steps, ``hidden`` final state or ``cell`` final state.
        layer: index of the layer; outputs are those of the last.
        direction: ``forward`` or ``reverse``.
        largest: largest absolute difference.
        sequences: how many sequences differ by more than the tolerance.
    """

    what: str
    layer: int
    direction: str
    largest: float
    sequences: int

    @property
    def exact(self) -> bool:
        """Whether no sequence differs."""
        return self.sequences == 0


class Contamination(msgspec.Struct, frozen=True, kw_only=True):
    """How padding changes what one recurrent layer computes.

    Attributes:
        name: the layer.
        spec: its sizes.
        lengths: lengths of the sequences it was tried on.
        tolerance: absolute difference up to which floats count as equal.
        differences: one entry for each tensor, layer and direction.
        assumed: whether the lengths were made up, since those of the run are unknown.
        unchecked: why the layer could not be tried, where it could not; all else is empty then.
    """

    name: str
    spec: RnnSpec | None = None
    lengths: tuple[int, ...] = ()
    tolerance: float = 0.0
    differences: tuple[Difference, ...] = ()
    assumed: bool = False
    unchecked: str = ""

    @property
    def outputs_exact(self) -> bool:
        """Whether padded outputs at real steps equal packed ones."""
        return all(each.exact for each in self.differences if each.what == "output")

    @property
    def states_exact(self) -> bool:
        """Whether padded final states equal packed ones."""
        return all(each.exact for each in self.differences if each.what != "output")

    @property
    def summary(self) -> str:
        """Outputs and final states in one sentence without an end."""
        if self.unchecked:
            return str(self)
        assumed = ", lengths assumed" if self.assumed else ""
        parts = []
        for what, title in _TITLES.items():
            found = [each for each in self.differences if each.what == what]
            largest = max((each.largest for each in found if not each.exact), default=None)
            if found:
                parts.append(f"{title} equal" if largest is None else f"{title} differ by up to {largest:.3g}")
        return f"{printable(self.name)}, padded against packed{assumed}: {', '.join(parts)}"

    def __str__(self) -> str:
        if self.unchecked:
            return f"{printable(self.name)} is not checked: {self.unchecked}"
        assumed = ", lengths assumed" if self.assumed else ""
        lines = [
            f"{printable(self.name)} ({self.spec}), padded against packed on {_sequences(len(self.lengths))}{assumed}:"
        ]
        for each in self.differences:
            where = f"{each.what}, layer {each.layer}, {each.direction}"
            verdict = "exact" if each.exact else f"differs by up to {each.largest:.3g} in {_sequences(each.sequences)}"
            lines.append(f"  {where:<28} {verdict}")
        lines.append(f"  (exact: within {self.tolerance:.1e})")
        return "\n".join(lines)


def _sequences(number: int) -> str:
    return "1 sequence" if number == 1 else f"{number:,} sequences"
