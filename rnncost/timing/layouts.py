"""The ways to run a batch of sequences through a recurrent layer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rnncost.errors import LengthsError
from rnncost.timing.batch import Recurrent, SequenceBatch
from rnncost.timing.exact import ExactGroup, run_exact

Result = tuple[Tensor, Tensor]
"""Outputs ``(T, B, D·R)`` and final hidden states ``(L·D, B, R)``, in the batch's order."""


class Layout(Protocol):
    """A way to run a batch.

    Attributes:
        name: what reports call it.
        exact: whether outputs at real steps and final hidden states are those of a packed run.
        groups: sequences in each padded group it runs; empty where it runs none.
    """

    name: str
    exact: bool
    groups: tuple[int, ...]

    def run(self) -> Result:
        """Runs the batch, with all that the layout costs."""


class Padded:
    """One rectangle. Exact only where all lengths are equal; its outputs are exact in one direction."""

    groups: tuple[int, ...] = ()

    def __init__(self, rnn: Recurrent, batch: SequenceBatch) -> None:
        self._rnn, self._data = rnn, _as_given(rnn, batch.padded)
        self.exact = len(set(batch.sorted_lengths())) == 1
        self.name = "padded"

    def run(self) -> Result:
        """Runs the module as it is."""
        output, final = self._rnn.forward(self._data)
        return _steps_first(self._rnn, output), _hidden(final)


class Masked(Padded):
    """Padded, with outputs beyond each sequence's end set to zero: for teaching, it saves nothing."""

    def __init__(self, rnn: Recurrent, batch: SequenceBatch) -> None:
        super().__init__(rnn, batch)
        self.name = "mask"
        steps = torch.arange(batch.padded.shape[0]).unsqueeze(1)
        self._mask = (steps < batch.lengths).unsqueeze(2).to(batch.padded.device)

    def run(self) -> Result:
        """Runs padded, then masks."""
        output, hidden = super().run()
        return output * self._mask, hidden


class Packed:
    """A ``PackedSequence``, packed beforehand: the module call alone."""

    groups: tuple[int, ...] = ()
    exact = True

    def __init__(self, rnn: Recurrent, batch: SequenceBatch) -> None:
        self._rnn, self._batch = rnn, batch
        self._packed = pack_padded_sequence(batch.padded, batch.lengths, enforce_sorted=False)
        self.name = "packed"

    def run(self) -> Result:
        """Runs the module; the output stays packed data."""
        output, final = self._rnn.forward(self._packed)
        return output.data, _hidden(final)

    def unpacked(self, data: Tensor) -> Tensor:
        """Packed data as a padded batch."""
        return pad_packed_sequence(self._packed._replace(data=data))[0]


class PackedAndUnpacked:
    """Packing, running packed, and unpacking."""

    groups: tuple[int, ...] = ()
    exact = True

    def __init__(self, rnn: Recurrent, batch: SequenceBatch) -> None:
        self._rnn, self._batch = rnn, batch
        self.name = "packed+packing"

    def run(self) -> Result:
        """Padded in, padded out."""
        packed = pack_padded_sequence(self._batch.padded, self._batch.lengths, enforce_sorted=False)
        output, final = self._rnn.forward(packed)
        return pad_packed_sequence(output)[0], _hidden(final)


class Grouped:
    """Sorted by length and cut into contiguous padded groups, each run exactly and put back in order.

    Args:
        rnn: the layer.
        batch: the sequences.
        groups: sequences of each group, longest first; together all.
        name: what to call it.
    """

    exact = True

    def __init__(self, rnn: Recurrent, batch: SequenceBatch, groups: Sequence[int], *, name: str) -> None:
        if sum(groups) != batch.sequences or min(groups) < 1:
            raise LengthsError(f"groups of {list(groups)} sequences do not make a batch of {batch.sequences}")
        self._rnn, self._padded = rnn, batch.padded
        self.groups, self.name = tuple(groups), name
        device = batch.padded.device
        self._parts: list[tuple[Tensor, int, ExactGroup]] = []
        for indices in torch.split(batch.order, list(groups)):
            lengths = batch.lengths[indices]
            steps = int(lengths.max())
            self._parts.append((indices.to(device), steps, ExactGroup(lengths.to(device), steps=steps)))
        self._back = torch.argsort(batch.order).to(device)

    def run(self) -> Result:
        """Slices each group out, runs it, and puts outputs and states back in the batch's order."""
        outputs, states = [], []
        for indices, steps, group in self._parts:
            output, hidden = run_exact(self._rnn, self._padded[:steps, indices], group)
            missing = self._padded.shape[0] - steps
            outputs.append(nn.functional.pad(output, (0, 0, 0, 0, 0, missing)) if missing else output)
            states.append(hidden)
        if len(outputs) == 1:
            return outputs[0][:, self._back], states[0][:, self._back]
        return torch.cat(outputs, dim=1)[:, self._back], torch.cat(states, dim=1)[:, self._back]


class OverBatches:
    """One layout of several batches, which are run one after another.

    Args:
        name: what to call it.
        layouts: the layout of each batch.
    """

    def __init__(self, name: str, layouts: Sequence[Layout]) -> None:
        self.name = name
        self.exact = all(layout.exact for layout in layouts)
        self.groups = tuple(size for layout in layouts for size in layout.groups)
        self.runs = tuple(layout.run for layout in layouts)


Maker = Callable[[Recurrent, SequenceBatch], Any]


def make_layout(name: str, rnn: Recurrent, batch: SequenceBatch) -> Layout:
    """The layout called ``name``: padded, mask, packed, packed+packing, loop, or bucketed(k).

    Raises:
        LengthsError: for any other name, or more groups than sequences.
    """
    makers: dict[str, Maker] = {
        "padded": Padded,
        "mask": Masked,
        "packed": Packed,
        "packed+packing": PackedAndUnpacked,
        "loop": lambda rnn, batch: Grouped(rnn, batch, [1] * batch.sequences, name="loop"),
    }
    if name in makers:
        layout: Layout = makers[name](rnn, batch)
        return layout
    buckets = bucket_count(name)
    if buckets is not None:
        return Grouped(rnn, batch, equal_groups(batch.sequences, buckets), name=f"bucketed({buckets})")
    raise LengthsError(f"no layout is called {name!r}; use {', '.join(makers)}, split or bucketed(k)")


def bucket_count(name: str) -> int | None:
    """K of ``bucketed(k)``; ``None`` for any other name."""
    found = re.fullmatch(r"bucketed\(([0-9]{1,9})\)", name) if isinstance(name, str) else None
    return None if found is None else int(found[1])


def equal_groups(sequences: int, groups: int) -> list[int]:
    """Sizes of ``groups`` groups as equal as can be, larger ones first.

    Raises:
        LengthsError: for no group, or more groups than sequences.
    """
    if not 1 <= groups <= sequences:
        raise LengthsError(f"{sequences} sequences cannot be cut into {groups} groups; use 1 to {sequences}")
    size, larger = divmod(sequences, groups)
    return [size + 1] * larger + [size] * (groups - larger)


def _as_given(rnn: Recurrent, padded: Tensor) -> Tensor:
    return padded.transpose(0, 1).contiguous() if rnn.batch_first else padded


def _steps_first(rnn: Recurrent, output: Tensor) -> Tensor:
    return output.transpose(0, 1) if rnn.batch_first else output


def _hidden(final: Any) -> Tensor:
    hidden: Tensor = final[0] if isinstance(final, tuple) else final
    return hidden
