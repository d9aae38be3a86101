"""Watches modules whose call may run any number of kernels, which are listed while it lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from rnncost.counting import formulas
from rnncost.counting.shape import BatchShape
from rnncost.counting.spec import RnnSpec
from rnncost.counting.tally import Tally
from rnncost.reporting.layer import LayerCost, Source
from rnncost.tracking import stock
from rnncost.tracking.kernels import KernelLog
from rnncost.tracking.readers import READER_BACKWARD, Reader, read_spec
from rnncost.tracking.recorder import Recorder
from rnncost.tracking.running import raised
from rnncost.tracking.verifier import call_macs
from rnncost.tracking.wants import call_kind
from rnncost.tracking.watched import Options, Watched


class _Scope(Watched):
    """Opens a log when a call begins and closes it when the call ends."""

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        options = self._options
        KernelLog(
            owner=self,
            stack=options.logs,
            covers=module if self.source == "reader" else None,
            shapes=options.shapes,
            name=self.name,
            recorder_of=self._recorder_of(),
        ).open()

    def _recorder_of(self) -> Callable[[RnnSpec, str], Recorder] | None:
        return None


class SubclassWatch(_Scope):
    """A module that descends from torch's but has a forward of its own: its kernels are counted."""

    source: Source = "subclass"

    def __init__(self, name: str, module: nn.Module, options: Options) -> None:
        super().__init__(name, module, None, options)
        self._declared = stock.read_spec(module)

    def _recorder_of(self) -> Callable[[RnnSpec, str], Recorder] | None:
        return (lambda spec, kernel: self.recorder(spec)) if self._options.backward else None

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        log = self._options.logs.close(self)
        if log is None:
            return
        for kernel in log.unreadable:
            self.miss(f"its call of torch.{kernel} could not be read")
        for call in log.calls:
            self.recorder(call.spec).add(call.kind, call.shape)
        # The logs around this one saw the same kernels.
        kernels = self._options.logs.claim(len(log.calls))
        if self._options.verifier is not None and log.calls:
            self._options.verifier.compare(self.name, sum(map(call_macs, log.calls)), kernels)
        if not raised(output) and not (log.calls or log.unreadable or log.claimed):
            self.miss("its forward runs no kernel that rnncost knows; see rnncost.register_reader")

    def costs(self) -> Iterator[LayerCost]:
        """What was recorded; the declared module without calls where nothing was."""
        # A kernel that a child's hook claimed leaves an empty recorder behind.
        ran = [cost for cost in super().costs() if cost.calls]
        if not ran and not self._reasons and self._declared is not None:
            yield LayerCost(name=self.name, spec=self._declared, source=self.source)
        yield from ran


class ReaderWatch(_Scope):
    """A module that a registered reader describes, whatever kernels it runs."""

    source: Source = "reader"

    def __init__(self, name: str, module: nn.Module, reader: Reader, options: Options) -> None:
        super().__init__(name, module, read_spec(reader, module), options)
        self._reader = reader

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        log = self._options.logs.close(self)
        if raised(output):
            return
        spec = read_spec(self._reader, module)
        shape: Any = self._reader.shape(module, args, kwargs, output)  # somebody else's code
        if not isinstance(shape, BatchShape):
            self.miss(f"{type(self._reader).__name__}.shape() returned {shape!r}, not a BatchShape; see rnncost.Reader")
            return
        shape = self._with_lengths(shape)
        self.recorder(spec).add(call_kind(packed=shape.packed, dropout=0.0), shape)
        kernels = self._options.logs.claim(0 if log is None else len(log.calls))
        if self._options.verifier is not None:
            macs = formulas.forward(spec, Tally.of(shape)).macs
            if kernels:
                self._options.verifier.compare(self.name, macs, kernels)
            else:
                self._options.verifier.trust(macs)
        if self._options.backward and torch.is_grad_enabled():
            self.miss(READER_BACKWARD)

    def _with_lengths(self, shape: BatchShape) -> BatchShape:
        if shape.packed or shape.length_counts is not None or shape.steps <= 1:
            return shape
        return self._options.shapes.padded(shape.sequences, shape.steps, None, batch_first=False, name=self.name)


class UnreadableWatch(Watched):
    """A module whose reader refuses it: it is named, and nothing of it is counted."""

    def __init__(self, name: str, module: nn.Module, reason: str, options: Options) -> None:
        super().__init__(name, module, None, options)
        self.miss(reason)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Nothing to read."""
