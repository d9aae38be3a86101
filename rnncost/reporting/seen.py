"""The batches of a report's samples whose lengths are known, and which of them to show."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from rnncost.counting.shape import BatchShape
from rnncost.reporting.layer import LayerCost
from rnncost.reporting.report import CostReport


class SeenBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that a layer saw.

    Attributes:
        layer: the layer.
        shape: the batch, of known lengths.
    """

    layer: LayerCost
    shape: BatchShape

    @property
    def real_share(self) -> Fraction:
        """Real cells as a part of the rectangle; 1 for a batch without any cell."""
        padded = self.shape.padded_rows
        return Fraction(self.shape.packed_rows or 0, padded) if padded else Fraction(1)


def known_batches(report: CostReport) -> list[SeenBatch]:
    """Batches of known lengths out of the samples of all layers; layers of most executed work first."""
    layers = sorted(report.layers, key=lambda layer: -layer.executed.mults)
    return [
        SeenBatch(layer=layer, shape=sample.shape)
        for layer in layers
        for sample in layer.samples
        if sample.shape.length_counts
    ]


def typical_batch(report: CostReport) -> SeenBatch | None:
    """The batch whose real share is the median one, of the layer that executed most."""
    batches = known_batches(report)
    own = sorted((each for each in batches if each.layer.name == batches[0].layer.name), key=_share)
    return own[len(own) // 2] if own else None


def worst_batch(report: CostReport) -> SeenBatch | None:
    """The batch with the least real share, of any layer."""
    return min(known_batches(report), key=_share, default=None)


def _share(batch: SeenBatch) -> Fraction:
    return batch.real_share
