"""How a call's sizes become a batch shape."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rnncost.counting.shape import BatchShape


class ShapeReader:
    """Makes batch shapes of sizes; a tracker that knows true lengths has one that adds them.

    Attributes:
        plain: nothing is added, so that sizes may be queued as they are.
    """

    plain = True

    def packed(self, batch_sizes: Sequence[int]) -> BatchShape:
        """The shape of a packed call."""
        return BatchShape.from_batch_sizes(batch_sizes)

    def padded(self, sequences: int, steps: int, given: Tensor | None, *, batch_first: bool, name: str) -> BatchShape:
        """The shape of a padded call of layer ``name``; ``given`` is its input, if its values may be looked at."""
        return BatchShape.rectangle(sequences=sequences, steps=steps)
