"""The best split of a batch into padded groups: a cost model, and a dynamic programme over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Grid = tuple[tuple[int, int], ...]


class GroupTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a padded run of b sequences over t steps: α(b) + β(b)·t, linear in b between measured sizes.

    Attributes:
        sizes: measured group sizes, ascending.
        constant_s: α at each.
        step_s: β at each.
        split_s: what each group of a batch costs beside its own run: putting it back among the others.
        batch_s: what a batch cut into groups costs beside them, however many they are.
    """

    sizes: tuple[int, ...]
    constant_s: tuple[float, ...]
    step_s: tuple[float, ...]
    split_s: float = 0.0
    batch_s: float = 0.0

    def seconds(self, sequences: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Predicted seconds of groups, elementwise."""
        constant = np.interp(sequences, self.sizes, self.constant_s)
        step = np.interp(sequences, self.sizes, self.step_s)
        predicted: NDArray[np.float64] = constant + step * steps + self.split_s
        return predicted

    def predict(self, lengths: Sequence[int], groups: Sequence[int]) -> float:
        """Predicted seconds of a batch cut into ``groups``; lengths longest first."""
        starts = np.cumsum([0, *groups[:-1]])
        return self.batch_s + float(self.seconds(np.asarray(groups), np.asarray(lengths)[starts]).sum())


def measured_grid(lengths: Sequence[int]) -> Grid:
    """The runs (sequences, steps) worth measuring: two lengths for powers of two and the whole batch.

    The shorter one is a length that a quarter of the sequences does not exceed, since groups of
    many sequences are short: the line is better read near where it is used.
    """
    sequences, steps = len(lengths), max(lengths)
    sizes = [2**power for power in range(sequences.bit_length()) if 2**power < sequences]
    short = sorted(lengths)[sequences // 4]
    if short == steps:
        short = max(1, steps // 4)
    return tuple((size, length) for size in (*sizes, sequences) for length in dict.fromkeys((short, steps)))


def fit_group_time(seconds: Mapping[tuple[int, int], float]) -> GroupTime:
    """Fits α and β to the seconds of runs of (sequences, steps), one or two lengths a size."""
    sizes = sorted({size for size, _ in seconds})
    constants, slopes = [], []
    for size in sizes:
        found = sorted((steps, spent) for (each, steps), spent in seconds.items() if each == size)
        (short, first), (long, second) = found[0], found[-1]
        # A run of one measured length is taken to be proportional to it.
        slope = second / long if short == long else max(0.0, (second - first) / (long - short))
        slopes.append(slope)
        constants.append(max(0.0, second - slope * long))
    return GroupTime(sizes=tuple(sizes), constant_s=tuple(constants), step_s=tuple(slopes))


def with_split_cost(
    time: GroupTime, lengths: Sequence[int], measured: Sequence[tuple[Sequence[int], float]]
) -> GroupTime:
    """``time`` with the cost of splitting itself: what batches cut into groups took beyond their groups.

    Args:
        time: the cost of groups alone.
        lengths: of the batch that was cut, longest first.
        measured: the groups and the seconds of each cut; cuts of different numbers of groups tell
            what a group adds, one alone is taken to be all due to its groups.
    """
    counts = np.asarray([len(groups) for groups, _ in measured], dtype=float)
    beyond = np.asarray([spent - time.predict(lengths, groups) for groups, spent in measured])
    if not len(counts):
        return time
    if len(set(counts)) == 1:
        return msgspec.structs.replace(time, split_s=max(0.0, float(np.mean(beyond / counts))))
    slope, constant = np.polyfit(counts, beyond, 1)
    # Nothing is gained by splitting itself: where noise says so, the other term takes all.
    if slope < 0:
        slope, constant = 0.0, float(np.mean(beyond))
    elif constant < 0:
        slope, constant = float(counts @ beyond / (counts @ counts)), 0.0
    return msgspec.structs.replace(time, split_s=max(0.0, float(slope)), batch_s=max(0.0, float(constant)))


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
    return groups[::-1], time.batch_s + float(best[count])
