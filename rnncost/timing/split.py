"""The best split of a batch into padded groups: a cost model, and a dynamic programme over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray


class GroupTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a padded run of b sequences over t steps: α(b) + β(b)·t, linear in b between measured sizes.

    Attributes:
        sizes: measured group sizes, ascending.
        constant_s: α at each.
        step_s: β at each.
        split_s: what each group of a batch costs beside its own run: slicing it out, putting it back.
    """

    sizes: tuple[int, ...]
    constant_s: tuple[float, ...]
    step_s: tuple[float, ...]
    split_s: float = 0.0

    def seconds(self, sequences: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Predicted seconds of groups, elementwise."""
        constant = np.interp(sequences, self.sizes, self.constant_s)
        step = np.interp(sequences, self.sizes, self.step_s)
        predicted: NDArray[np.float64] = constant + step * steps + self.split_s
        return predicted

    def predict(self, lengths: Sequence[int], groups: Sequence[int]) -> float:
        """Predicted seconds of a batch cut into ``groups``; lengths longest first."""
        starts = np.cumsum([0, *groups[:-1]])
        return float(self.seconds(np.asarray(groups), np.asarray(lengths)[starts]).sum())


def measured_sizes(sequences: int) -> tuple[int, ...]:
    """Group sizes worth measuring: powers of two, and the whole batch."""
    sizes = [2**power for power in range(sequences.bit_length()) if 2**power < sequences]
    return (*sizes, sequences)


def fit_group_time(sequences: int, steps: int, measure: Callable[[int, int], float], *, split_s: float) -> GroupTime:
    """Measures two lengths for each of a few group sizes.

    Args:
        sequences: B, the largest group.
        steps: T, the longest.
        measure: seconds of a run of so many sequences over so many steps.
        split_s: see :class:`GroupTime`.
    """
    short, long = max(1, steps // 4), steps
    constants, slopes = [], []
    sizes = measured_sizes(sequences)
    for size in sizes:
        first, second = (measure(size, short), measure(size, long)) if short < long else (0.0, measure(size, long))
        slope = max(0.0, (second - first) / (long - short)) if short < long else second / long
        slopes.append(slope)
        constants.append(max(0.0, second - slope * long))
    return GroupTime(sizes=sizes, constant_s=tuple(constants), step_s=tuple(slopes), split_s=split_s)


def best_split(lengths: Sequence[int], time: GroupTime) -> tuple[list[int], float]:
    """The contiguous groups of least predicted time, their number free, and that time in seconds.

    Exact dynamic programme: the best cut of the first j sequences ends in a group that begins at
    some i < j and is as wide as the i-th length.

    Args:
        lengths: longest first.
        time: the cost of a group.
    """
    widths = np.asarray(lengths, dtype=np.int64)
    count = len(widths)
    best = np.zeros(count + 1)
    begins = np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        starts = np.arange(end)
        totals = best[:end] + time.seconds(end - starts, widths[:end])
        begins[end] = int(np.argmin(totals))
        best[end] = totals[begins[end]]
    groups: list[int] = []
    end = count
    while end:
        groups.append(int(end - begins[end]))
        end = int(begins[end])
    return groups[::-1], float(best[count])
