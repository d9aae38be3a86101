"""Watches every recurrent kernel of a tracker's context, to find what no module's hook sees."""

from __future__ import annotations

from collections.abc import Iterator

from rnncost.counting.spec import RnnSpec
from rnncost.reporting.layer import LayerCost, Uncounted
from rnncost.tracking.kernels import KernelLog, new_stack
from rnncost.tracking.recorder import Recorder
from rnncost.tracking.shapes import ShapeReader
from rnncost.tracking.verifier import Verifier

OUTSIDE = "(outside any module)"


class KernelEye:
    """Counts kernels that no hook claims, under the kernel's name.

    Kernels are seen in the thread that entered the tracker.

    Args:
        shapes: makes the shapes of the batches.
        backward: watch the backward of such kernels too.
    """

    def __init__(self, *, shapes: ShapeReader, backward: bool) -> None:
        self.verifier = Verifier()
        self.logs = new_stack()
        self._recorders: dict[tuple[str, RnnSpec], Recorder] = {}
        recorder_of = self._recorder if backward else None
        self._log = KernelLog(
            owner=self,
            stack=self.logs,
            shapes=shapes,
            name=OUTSIDE,
            recorder_of=recorder_of,
            on_many=lambda: self._sum(keep=1),
        )
        self._unreadable: dict[str, None] = {}

    def open(self) -> None:
        """Begins to watch."""
        for recorder in self._recorders.values():
            recorder.listening = True
        self._log.open()

    def close(self) -> None:
        """Ends watching."""
        self._log.close()
        self._sum()
        for recorder in self._recorders.values():
            recorder.listening = False

    def layers(self) -> Iterator[LayerCost]:
        """What ran outside any module, a layer for each kernel and its sizes."""
        self._sum()
        for (kernel, spec), recorder in self._recorders.items():
            calls = recorder.calls()
            if calls:
                yield LayerCost(
                    name=f"{OUTSIDE} {kernel}",
                    spec=spec,
                    source="kernel",
                    calls=calls,
                    backward_calls=recorder.backwards(),
                    samples=recorder.samples(),
                )

    def uncounted(self) -> Iterator[Uncounted]:
        """Kernels outside any module that could not be read."""
        self._sum()
        for kernel in self._unreadable:
            yield Uncounted(name=OUTSIDE, type_name=kernel, reason=f"its call of torch.{kernel} could not be read")

    def _recorder(self, spec: RnnSpec, kernel: str) -> Recorder:
        key = (kernel, spec)
        if key not in self._recorders:
            self._recorders[key] = Recorder(seed=kernel)
        return self._recorders[key]

    def _sum(self, *, keep: int = 0) -> None:
        # What is listed before the last ``keep`` calls has no hook that will claim it.
        known = len(self._log.calls) - keep
        for call in self._log.calls[:known]:
            self._recorder(call.spec, call.kernel).add(call.kind, call.shape)
            self.verifier.add_outside(call)
        del self._log.calls[:known]
        for kernel in self._log.unreadable:
            self._unreadable[kernel] = None
            self.verifier.add_unreadable(kernel)
        self._log.unreadable.clear()
