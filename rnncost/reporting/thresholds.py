"""How much a figure may grow from a baseline: ``mults:0%``, ``macs:10k``."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from rnncost.errors import UnitError
from rnncost.units import parse_count, parse_growth

# What may be held, and what reports call it.
METRICS = {
    "mults": "mults",
    "adds": "adds",
    "macs": "MACs",
    "flops": "FLOPs",
    "rows": "rows",
    "activations": "activations",
    "wasted": "wasted mults",
}
NO_LIMIT = "none"


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one metric may grow: by a share of the baseline or by a count.

    Attributes:
        metric: one of ``METRICS``.
        limit: the limit as it was written.
        share: growth allowed as a share of the baseline's figure; ``None`` where it is a count.
        count: growth allowed as a count; 0 where it is a share.
    """

    metric: str
    limit: str
    share: Fraction | None = None
    count: int = 0

    def allows(self, baseline: int | None, current: int | None) -> bool:
        """Whether the growth is surely within the limit. ``None`` is unknown, and never taken for 0."""
        if current is None:
            return False
        if baseline is None:
            # Unknown but not below 0, so a figure within the count alone has not grown beyond it.
            return current <= self.count
        allowed = self.count if self.share is None else max(baseline, 0) * self.share
        return current - baseline <= allowed


def parse_thresholds(text: str) -> tuple[Threshold, ...]:
    """Reads limits such as ``mults:0%`` or ``mults:150%,macs:10k``; ``none`` is no limit at all.

    Raises:
        UnitError: naming the part that cannot be read.
    """
    if text.strip().lower() == NO_LIMIT:
        return ()
    return tuple(_threshold(part.strip()) for part in text.split(","))


def _threshold(text: str) -> Threshold:
    name, colon, limit = (" ".join(part.split()) for part in text.partition(":"))
    metric = name.lower()
    if metric not in METRICS or not colon:
        raise UnitError(
            f"{text!r} is not METRIC:LIMIT; write one like mults:0%, macs:10k or wasted:5%, several joined by commas, "
            f"or none; the metrics are {', '.join(METRICS)}"
        )
    if limit.endswith("%"):
        return Threshold(metric=metric, limit=limit, share=parse_growth(limit))
    return Threshold(metric=metric, limit=limit, count=parse_count(limit))
