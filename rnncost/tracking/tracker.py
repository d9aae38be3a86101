"""CostTracker: counts the recurrent work that runs while it is entered."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch
from torch import nn

from rnncost.errors import TrackerStateError, UncountedModuleWarning, UnsupportedModuleError
from rnncost.reporting.layer import Uncounted
from rnncost.reporting.report import CostReport, new_versions
from rnncost.tracking.warn import warn
from rnncost.tracking.watch import ModelWatch, ProcessWatch, Watch


class CostTracker:
    """Counts the operations of recurrent modules while it is entered.

    A forward hook on each RNN, GRU and LSTM reads the sizes of every call. Nothing else of the
    model is touched: its outputs are the same to the bit, no tensor is kept, no device is
    waited for, and the hooks go on every way out. Entering again adds to what was counted.

    ```
    with rnncost.CostTracker(model) as tracker:
        for x, lengths in loader:
            model(x, lengths)
    tracker.report.print()
    ```

    Args:
        model: the module to watch, itself recurrent or holding recurrent modules; without it,
            every recurrent module that the process calls is watched.

    Raises:
        UnsupportedModuleError: if ``model`` is not a ``torch.nn.Module``.

    Warns:
        UncountedModuleWarning: if the model holds recurrent layers that cannot be counted.
    """

    def __init__(self, model: nn.Module | None = None) -> None:
        if model is not None and not isinstance(model, nn.Module):
            raise UnsupportedModuleError(_not_a_module(model))
        self._watch: Watch = ProcessWatch() if model is None else ModelWatch(model)
        self._active = False
        self._warned: set[Uncounted] = set()

    def __enter__(self) -> CostTracker:
        if self._active:
            raise TrackerStateError("this CostTracker is already entered; use another one to count inside it")
        self._active = True
        try:
            self._watch.install()
            self._warn_uncounted()
        except BaseException:  # a warning filter may turn the warning into an error
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if error is None:
            self._warn_uncounted()

    def _leave(self) -> None:
        self._watch.remove()
        self._active = False

    @property
    def report(self) -> CostReport:
        """What has been counted so far; a snapshot when taken in the middle of a run."""
        return CostReport(
            layers=tuple(self._watch.layers()),
            uncounted=self._watch.uncounted(),
            versions=new_versions(torch=str(torch.__version__)),
        )

    def _warn_uncounted(self) -> None:
        for found in self._watch.uncounted():
            if found not in self._warned:
                self._warned.add(found)
                warn(f"{found}; all totals are partial", UncountedModuleWarning)


def analyze(model: nn.Module, *args: Any, **kwargs: Any) -> CostReport:
    """Calls ``model(*args, **kwargs)`` once under a tracker and returns the report.

    Gradient mode and training mode are as the caller set them.

    Raises:
        UnsupportedModuleError: if ``model`` is not a ``torch.nn.Module``.
    """
    with CostTracker(model) as tracker:
        model(*args, **kwargs)
    return tracker.report


def _not_a_module(model: object) -> str:
    if isinstance(model, type) and issubclass(model, nn.Module):
        return f"the model is the class {model.__name__}; pass an instance of it"
    return f"the model is a {type(model).__name__}, not a torch.nn.Module; pass the module to watch"
