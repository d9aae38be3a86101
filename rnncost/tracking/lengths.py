"""True lengths of padded batches: given by the user, or read off trailing zeros."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rnncost.counting.lengths import check_lengths
from rnncost.counting.shape import BatchShape
from rnncost.errors import LengthsError
from rnncost.tracking.shapes import ShapeReader


class TrueLengths(ShapeReader):
    """Adds to each batch shape what is known of its lengths.

    Args:
        infer: read lengths off trailing all-zero steps of padded input. This looks at values, so
            it waits for the device.
        padded_length: width that the data of packed batches had been padded to.
    """

    def __init__(self, *, infer: bool = False, padded_length: int | None = None) -> None:
        self._infer = infer
        self._padded_length = padded_length
        self._given: tuple[int, ...] | None = None
        self._given_by_name: dict[str, tuple[int, ...]] = {}
        # (sequences, steps) -> (lengths, the layer in whose input they were found)
        self._inferred: dict[tuple[int, int], tuple[tuple[int, ...], str]] = {}
        self._sources: set[str] = set()
        self.set(None)

    def set(self, lengths: Iterable[Any] | Mapping[str, Iterable[Any]] | None) -> None:
        """Takes the lengths of the padded batches that follow, for all layers or by name."""
        by_name = lengths if isinstance(lengths, Mapping) else {}
        checked = {name: check_lengths(each, source=f"lengths of {name}") for name, each in by_name.items()}
        given = None if lengths is None or isinstance(lengths, Mapping) else check_lengths(lengths)
        self._given, self._given_by_name = given, checked
        self.plain = given is None and not checked and not self._infer and self._padded_length is None

    def packed(self, batch_sizes: Sequence[int]) -> BatchShape:
        """A packed batch; its padded equivalent is ``padded_length`` wide, where given."""
        return BatchShape.from_batch_sizes(batch_sizes, padded_length=self._padded_length)

    def padded(self, sequences: int, steps: int, given: Tensor | None, *, batch_first: bool, name: str) -> BatchShape:
        """A padded batch of layer ``name``, with its lengths where they are known.

        Raises:
            LengthsError: if lengths were given, and their number or the longest does not fit.
        """
        lengths = self._given_by_name.get(name, self._given)
        if lengths is not None:
            self._check(lengths, sequences, steps, name)
        elif self._infer and sequences:
            lengths = self._infer_lengths(sequences, steps, given, batch_first, name)
        return BatchShape.rectangle(sequences=sequences, steps=steps, lengths=lengths)

    @staticmethod
    def _check(lengths: tuple[int, ...], sequences: int, steps: int, name: str) -> None:
        batch = f"the batch of {name} has {sequences} sequences of {steps} steps"
        if len(lengths) != sequences:
            raise LengthsError(
                f"{len(lengths)} lengths were given, but {batch}; call set_lengths() before each batch with its own, "
                "or give layers lengths of their own by name"
            )
        if max(lengths) > steps:
            raise LengthsError(f"a length of {max(lengths)} was given, but {batch}; lengths count steps, not features")

    def _infer_lengths(
        self, sequences: int, steps: int, given: Tensor | None, batch_first: bool, name: str
    ) -> tuple[int, ...] | None:
        """Lengths from trailing zeros, or those found in the same forward by a layer below.

        Where a layer's input has no trailing zeros, it may be full, or computed from padded values.
        A layer in whose input zeros were found before reads data: its batch is full. For others
        the lengths hold that such a layer found for a batch of this size since its last call.
        """
        lengths = None if given is None or given.is_meta else trailing_zero_lengths(given, batch_first=batch_first)
        found = lengths is not None and min(lengths, default=steps) < steps
        if not found and name not in self._sources:
            return self._inferred.get((sequences, steps), (None, ""))[0]
        self._sources.add(name)
        self._inferred = {size: each for size, each in self._inferred.items() if each[1] != name}
        if lengths is not None:
            self._inferred[sequences, steps] = (lengths, name)
        return lengths


def trailing_zero_lengths(padded: Tensor, *, batch_first: bool) -> tuple[int, ...]:
    """Lengths of the sequences of ``(T, B, I)``, ``(B, T, I)`` or ``(T, I)`` without trailing zero steps.

    A sequence of nothing but zeros is given one step, since none can have fewer.
    """
    with torch.no_grad():
        real = (padded.detach() != 0).any(dim=-1)
        if real.dim() == 1:
            real = real.unsqueeze(0)
        elif not batch_first:
            real = real.transpose(0, 1)
        numbers = torch.arange(1, real.shape[1] + 1, device=real.device)
        return tuple((real * numbers).amax(dim=1).clamp(min=1).tolist())
