"""Which watch fits a module."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from rnncost.errors import RnncostError
from rnncost.tracking import stock, third_party  # noqa: F401  (third_party registers its readers)
from rnncost.tracking.readers import find_reader, on_registration
from rnncost.tracking.scope_watch import ReaderWatch, SubclassWatch, UnreadableWatch
from rnncost.tracking.stock_watch import StockWatch
from rnncost.tracking.watched import Options, Watched

# By class, since the hooks of a whole process ask for every module that is called.
_recurrent: dict[type[nn.Module], bool] = {}


def is_recurrent(module: nn.Module) -> bool:
    """Whether ``module`` does recurrent work that can be counted, or at least named."""
    kind = type(module)
    if kind not in _recurrent:
        _recurrent[kind] = stock.is_derived(module) or find_reader(module) is not None
    return _recurrent[kind]


on_registration(_recurrent.clear)


def uncovered(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules of ``model`` by name, without those whose work an outer module's reader states."""
    covered: list[str] = []
    for name, module in model.named_modules():
        if not any(name.startswith(f"{outer}.") or not outer for outer in covered):
            if find_reader(module) is not None:
                covered.append(name)
            yield name, module


def watch(name: str, module: nn.Module, options: Options) -> Watched | None:
    """The watch that fits ``module``, or ``None`` if it is not recurrent."""
    reader = find_reader(module)
    if reader is not None:
        try:
            return ReaderWatch(name, module, reader, options)
        except RnncostError as error:
            return UnreadableWatch(name, module, str(error), options)
    if (stock.is_stock_layer(module) or stock.is_stock_cell(module)) and stock.read_spec(module) is not None:
        return StockWatch(name, module, options)
    return SubclassWatch(name, module, options) if stock.is_derived(module) else None
