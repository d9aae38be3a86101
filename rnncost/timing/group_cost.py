"""Measures what padded groups of a batch cost, of any size and width."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from rnncost.timing.batch import Recurrent, SequenceBatch
from rnncost.timing.exact import ExactGroup, run_exact
from rnncost.timing.layouts import Grouped, Padded, equal_groups
from rnncost.timing.sampling import Sampled
from rnncost.timing.split import GroupTime, fit_group_time, measured_grid, with_split_cost

_CUTS = (1, 2, 4, 8)

Run = Callable[[], tuple[Tensor, Tensor]]
Sampler = Callable[[Mapping[str, Run], str], Sampled]
"""Samples runs by name, in rounds with the one named as the base of ratios."""


class GroupCost(msgspec.Struct, frozen=True, kw_only=True):
    """What groups cost, and what the whole padded batch took in the same rounds.

    Predictions are best taken relative to it, since a machine is not as fast in one minute as in
    the next.

    Attributes:
        time: seconds of groups.
        sequences: of the batch.
        steps: of the batch.
        padded_s: seconds of the batch, padded.
    """

    time: GroupTime
    sequences: int
    steps: int
    padded_s: float

    def padded_seconds(self, sequences: int, steps: int) -> float:
        """Seconds of another padded batch: in proportion, as the groups of both sizes have it."""
        other, own = self.time.seconds(np.asarray([sequences, self.sequences]), np.asarray([steps, self.steps]))
        return self.padded_s * float(other / own)


def measure_group_cost(rnn: Recurrent, batch: SequenceBatch, sampled: Sampler) -> GroupCost:
    """Measures groups of a few sizes and widths beside the padded batch, and a few whole cuts of it.

    A group is sliced out of the batch and padded back to its width, as a part of a split is. What
    the cuts take beyond their groups is the cost of splitting itself.
    """
    lengths = batch.sorted_lengths()
    grid = measured_grid(lengths)
    cuts = [equal_groups(len(lengths), count) for count in _CUTS if count <= len(lengths)]
    runs: dict[str, Run] = {"padded": Padded(rnn, batch).run}
    runs.update({f"group {cell}": _Group(rnn, batch, *cell).run for cell in grid})
    runs.update({f"cut {len(groups)}": Grouped(rnn, batch, groups, name="cut").run for groups in cuts})
    found = sampled(runs, "padded")
    padded_s = found.median("padded")

    def seconds(name: str) -> float:
        return found.ratio(name, "padded").median * padded_s

    groups_alone = fit_group_time({cell: seconds(f"group {cell}") for cell in grid})
    measured = [(groups, seconds(f"cut {len(groups)}")) for groups in cuts]
    time = with_split_cost(groups_alone, lengths, measured)
    return GroupCost(time=time, sequences=len(lengths), steps=lengths[0], padded_s=padded_s)


class _Group:
    """A group of a batch, of lengths not all alike so that it is run as a real one is."""

    def __init__(self, rnn: Recurrent, batch: SequenceBatch, sequences: int, steps: int) -> None:
        self._rnn, self._padded, self._steps = rnn, batch.padded, steps
        device = batch.padded.device
        self._indices = batch.order[:sequences].to(device)
        lengths = torch.full((sequences,), steps)
        if sequences > 1 and steps > 1:
            lengths[-1] = steps - 1
        self._group = ExactGroup(lengths.to(device), steps=steps)

    def run(self) -> tuple[Tensor, Tensor]:
        output, hidden = run_exact(self._rnn, self._padded[: self._steps, self._indices], self._group)
        missing = self._padded.shape[0] - self._steps
        return (nn.functional.pad(output, (0, 0, 0, 0, 0, missing)) if missing else output), hidden
