"""True lengths of padded batches: given by the user, or read off trailing zeros."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from rnncost.counting.lengths import check_lengths
from rnncost.counting.shape import BatchShape
from rnncost.errors import LengthsError
from rnncost.tracking.kernels import ShapeReader


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
        self._inferred: dict[tuple[int, int], tuple[int, ...]] = {}
        self.set(None)

    def set(self, lengths: Iterable[Any] | Tensor | None) -> None:
        """Takes the lengths of the padded batches that follow; ``None`` forgets them."""
        self._given = None if lengths is None else check_lengths(lengths)
        self.plain = self._given is None and not self._infer and self._padded_length is None

    def packed(self, batch_sizes: Sequence[int]) -> BatchShape:
        """A packed batch; its padded equivalent is ``padded_length`` wide, where given."""
        return BatchShape.from_batch_sizes(batch_sizes, padded_length=self._padded_length)

    def padded(self, sequences: int, steps: int, given: Tensor | None, *, batch_first: bool) -> BatchShape:
        """A padded batch, with its lengths where they are known.

        Raises:
            LengthsError: if lengths were given, and their number or the longest does not fit.
        """
        if self._given is not None:
            self._check(self._given, sequences, steps)
            return BatchShape.rectangle(sequences=sequences, steps=steps, lengths=self._given)
        lengths = self._infer_lengths(sequences, steps, given, batch_first) if self._infer else None
        return BatchShape.rectangle(sequences=sequences, steps=steps, lengths=lengths)

    @staticmethod
    def _check(lengths: tuple[int, ...], sequences: int, steps: int) -> None:
        batch = f"the batch has {sequences} sequences of {steps} steps"
        if len(lengths) != sequences:
            raise LengthsError(
                f"{len(lengths)} lengths were given, but {batch}; call set_lengths() before each batch with its own"
            )
        if max(lengths) > steps:
            raise LengthsError(f"a length of {max(lengths)} was given, but {batch}; lengths count steps, not features")

    def _infer_lengths(
        self, sequences: int, steps: int, given: Tensor | None, batch_first: bool
    ) -> tuple[int, ...] | None:
        # An input without trailing zeros may be full, or computed from padded values by a layer
        # below. Then the lengths last seen in a batch of this size hold; else none are known.
        lengths = None if given is None or given.is_meta else trailing_zero_lengths(given, batch_first=batch_first)
        if lengths is None or min(lengths, default=0) == steps:
            return self._inferred.get((sequences, steps))
        self._inferred[sequences, steps] = lengths
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
