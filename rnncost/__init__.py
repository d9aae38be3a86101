"""rnncost: what PyTorch's recurrent layers really cost, packed and padded.

Names are imported when first used, so that ``import rnncost`` loads no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rnncost._version import __version__

if TYPE_CHECKING:
    from rnncost.counting import BatchShape as BatchShape
    from rnncost.counting import CustomSpec as CustomSpec
    from rnncost.counting import OpCount as OpCount
    from rnncost.counting import RnnSpec as RnnSpec
    from rnncost.counting import Tally as Tally
    from rnncost.reporting import Comparison as Comparison
    from rnncost.reporting import CostReport as CostReport
    from rnncost.reporting import LayerCost as LayerCost
    from rnncost.reporting import compare as compare
    from rnncost.reporting import merge as merge
    from rnncost.timing import profile as profile
    from rnncost.tracking import CostTracker as CostTracker
    from rnncost.tracking import Reader as Reader
    from rnncost.tracking import analyze as analyze
    from rnncost.tracking import contamination as contamination
    from rnncost.tracking import estimate as estimate
    from rnncost.tracking import register_reader as register_reader

_HOMES = {
    "counting": ("BatchShape", "CustomSpec", "OpCount", "RnnSpec", "Tally"),
    "reporting": ("Comparison", "CostReport", "LayerCost", "compare", "merge"),
    "timing": ("profile",),
    "tracking": ("CostTracker", "Reader", "analyze", "contamination", "estimate", "register_reader"),
}
_HOME_OF = {name: f"rnncost.{home}" for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
