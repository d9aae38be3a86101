"""Compares what hooks counted with the kernels that ran."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from rnncost.counting import formulas
from rnncost.counting.tally import Tally
from rnncost.reporting.verification import Verification
from rnncost.tracking.kernels import KernelCall


class Verifier:
    """Sums the MACs of hooks and of kernels apart, and names each module where they differ."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = self._kernel_macs = self._counted_macs = self._reader_macs = self._unseen_calls = 0
        self._differences: dict[str, None] = {}

    def compare(self, name: str, counted_macs: int, kernels: Iterable[KernelCall]) -> None:
        """One call of a hooked module, and the kernels that ran inside it."""
        ran = list(kernels)
        kernel_macs = sum(call_macs(call) for call in ran)
        with self._lock:
            if not ran:
                self._unseen_calls += 1  # in another thread, or compiled: the eye was not there
                return
            self._calls += len(ran)
            self._kernel_macs += kernel_macs
            self._counted_macs += counted_macs
            if kernel_macs != counted_macs:
                self._differences[f"{name}: {counted_macs:,} MACs counted, {kernel_macs:,} in kernels"] = None

    def trust(self, counted_macs: int) -> None:
        """One call that a reader describes and that ran no recurrent kernel."""
        with self._lock:
            self._reader_macs += counted_macs

    def add_outside(self, call: KernelCall) -> None:
        """A kernel that ran outside any module, counted as it was seen."""
        with self._lock:
            self._calls += 1
            self._kernel_macs += call_macs(call)
            self._counted_macs += call_macs(call)

    def add_unreadable(self, kernel: str) -> None:
        """A kernel whose arguments could not be understood."""
        with self._lock:
            self._differences[f"a call of torch.{kernel} could not be read"] = None

    def result(self) -> Verification:
        """What was compared so far."""
        with self._lock:
            return Verification(
                calls=self._calls,
                kernel_macs=self._kernel_macs,
                counted_macs=self._counted_macs,
                reader_macs=self._reader_macs,
                unseen_calls=self._unseen_calls,
                differences=tuple(self._differences),
            )


def call_macs(call: KernelCall) -> int:
    """MACs of one kernel call."""
    return formulas.forward(call.spec, Tally.of(call.shape)).macs
