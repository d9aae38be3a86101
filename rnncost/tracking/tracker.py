"""CostTracker: counts the recurrent work that runs while it is entered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import torch
from torch import nn

from rnncost.counting.lengths import check_lengths
from rnncost.errors import TrackerStateError, UncountedModuleWarning, UnsupportedModuleError
from rnncost.reporting.layer import Uncounted
from rnncost.reporting.report import CostReport, new_versions
from rnncost.tracking.call_times import CallTimes
from rnncost.tracking.eye import KernelEye
from rnncost.tracking.kernels import new_stack
from rnncost.tracking.lengths import TrueLengths
from rnncost.tracking.watch import ModelWatch, ProcessWatch, Watch
from rnncost.tracking.watched import Options
from rnncost.warn import warn


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
        lengths: true lengths of the padded batches, as :meth:`set_lengths` takes them.
        infer_lengths: read true lengths off trailing all-zero steps of padded input. This looks
            at values and so waits for the device. A layer above, whose input is computed, takes
            the lengths that a layer below found in the same forward; else they stay unknown.
        padded_length: width that the data of packed batches had been padded to, where more than
            the longest sequence; a ``PackedSequence`` forgets it.
        backward: count the backward passes that run as well, by hooks on each call's outputs.
        timing: note the time of each call as well, forward and, with ``backward``, backward: wall time on
            the CPU; on an accelerator the time between events on the current stream, which are read
            when a report is asked for. Only then is the device waited for. A call takes tens of
            microseconds longer, its backward some ten for each weight; ``verify`` makes it seem slower.
        verify: watch every recurrent kernel too. The report then says whether counted MACs equal
            those of the kernels, and counts kernels that ran outside any module. Each torch
            function takes some microseconds longer.

    Raises:
        UnsupportedModuleError: if ``model`` is not a ``torch.nn.Module``.
        LengthsError: if ``lengths`` or ``padded_length`` cannot be; in the forward of a model,
            if they do not fit its batch.

    Warns:
        UncountedModuleWarning: if recurrent work runs, or is known to, that cannot be counted.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        *,
        lengths: Iterable[Any] | Mapping[str, Iterable[Any]] | None = None,
        infer_lengths: bool = False,
        padded_length: int | None = None,
        backward: bool = False,
        timing: bool = False,
        verify: bool = False,
    ) -> None:
        if model is not None and not isinstance(model, nn.Module):
            raise UnsupportedModuleError(_not_a_module(model))
        if padded_length is not None:
            check_lengths([padded_length], source="padded_length")
        self._lengths = TrueLengths(infer=infer_lengths, padded_length=padded_length)
        self._lengths.set(lengths)
        self._eye = KernelEye(shapes=self._lengths, backward=backward) if verify else None
        self._times = CallTimes(backward=backward) if timing else None
        options = Options(
            backward=backward,
            shapes=self._lengths,
            verifier=None if self._eye is None else self._eye.verifier,
            logs=new_stack() if self._eye is None else self._eye.logs,
            times=self._times,
        )
        self._logs = options.logs
        self._watch: Watch = ProcessWatch(options) if model is None else ModelWatch(model, options)
        self._active = False
        self._warned: set[Uncounted] = set()

    def set_lengths(self, lengths: Iterable[Any] | Mapping[str, Iterable[Any]] | None) -> None:
        """Gives the true lengths of the padded batches that follow; ``None`` makes them unknown again.

        Args:
            lengths: steps of each sequence of the batch, in any order: a list, a numpy array, or
                a tensor of integers on any device (which is waited for). Where layers get batches
                of different sequences, such as words and characters, a mapping from a layer's name.

        Raises:
            LengthsError: naming the value and its position, for anything but integers of at least 1.
        """
        self._lengths.set(lengths)

    def __enter__(self) -> CostTracker:
        if self._active:
            raise TrackerStateError("this CostTracker is already entered; use another one to count inside it")
        self._active = True
        try:
            if self._times is not None:
                self._times.open()
            self._watch.install()
            if self._eye is not None:
                self._eye.open()
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
        self._active = False
        try:
            self._watch.remove()
        finally:
            if self._eye is not None:
                self._eye.close()
            if self._times is not None:
                self._times.close()
            self._logs.close_all()

    @property
    def report(self) -> CostReport:
        """What has been counted so far; a snapshot when taken in the middle of a run."""
        eye = self._eye
        if self._times is not None:
            self._times.settle()
        return CostReport(
            layers=(*self._watch.layers(), *(() if eye is None else eye.layers())),
            uncounted=self._uncounted(),
            verification=None if eye is None else eye.verifier.result(),
            versions=new_versions(torch=str(torch.__version__)),
        )

    def _uncounted(self) -> tuple[Uncounted, ...]:
        return (*self._watch.uncounted(), *(() if self._eye is None else self._eye.uncounted()))

    def _warn_uncounted(self) -> None:
        for found in self._uncounted():
            if found not in self._warned:
                self._warned.add(found)
                warn(f"{found}; all totals are partial", UncountedModuleWarning)


def analyze(model: nn.Module, /, *args: Any, **kwargs: Any) -> CostReport:
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
