"""One module under watch: where its calls are recorded, and what could not be counted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from torch import nn

from rnncost.counting.spec import Spec
from rnncost.reporting.layer import LayerCost, Source, Uncounted
from rnncost.reporting.timing import RunTime
from rnncost.tracking.backward_times import BackwardTimes
from rnncost.tracking.call_times import CallTimes
from rnncost.tracking.durations import Durations
from rnncost.tracking.hooks import Hook
from rnncost.tracking.kernels import LogStack
from rnncost.tracking.recorder import Recorder
from rnncost.tracking.shapes import ShapeReader
from rnncost.tracking.verifier import Verifier

_NO_MOMENT = "no clock is known for its device, or its calls ran compiled, traced or in a graph that was captured"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a tracker was asked for.

    Attributes:
        backward: count backward passes too.
        shapes: makes batch shapes, with true lengths where they are known.
        verifier: compares with the kernels that ran, where that is wanted.
        logs: the tracker's open lists of kernels.
        times: times the calls, where that is wanted.
    """

    backward: bool
    shapes: ShapeReader
    verifier: Verifier | None
    logs: LogStack
    times: CallTimes | None = None


class Watched(Hook):
    """Records the calls of one module. Subclasses read them."""

    source: Source = "module"

    def __init__(self, name: str, module: nn.Module, spec: Spec | None, options: Options) -> None:
        self.name = name
        self._type_name = type(module).__name__
        self._options = options
        self._recorders: dict[Spec, Recorder] = {}
        self._reasons: dict[str, None] = {}
        self.times = None if options.times is None else options.times.forward()
        if spec is not None:
            self.recorder(spec)

    def recorder(self, spec: Spec) -> Recorder:
        """Where calls of this spec are recorded."""
        if spec not in self._recorders:
            times = self._options.times
            self._recorders[spec] = Recorder(seed=self.name, times=None if times is None else times.backward())
        return self._recorders[spec]

    def listen(self, on: bool) -> None:
        """Counts backward passes from now on, or no longer."""
        for recorder in self._recorders.values():
            recorder.listening = on

    def miss(self, reason: str) -> None:
        """Notes work of this module that could not be counted."""
        self._reasons[reason] = None

    def costs(self) -> Iterator[LayerCost]:
        """What was recorded: one layer for each spec that the module ran as.

        The time of its forward cannot be divided among them and stands at the first.
        """
        forward = None if self.times is None else self.times.durations
        for spec, recorder in self._recorders.items():
            calls = recorder.calls()
            run_time = self._run_time(forward, recorder.times)
            untimed = bool(calls) and forward is not None and run_time is None
            if calls:
                forward = None
            yield LayerCost(
                name=self.name,
                spec=spec,
                source=self.source,
                calls=calls,
                backward_calls=recorder.backwards(),
                samples=recorder.samples(),
                run_time=run_time if calls else None,
                untimed=_NO_MOMENT if untimed else "",
            )

    def _run_time(self, forward: Durations | None, backward: BackwardTimes | None) -> RunTime | None:
        sums = [each for each in (forward, None if backward is None else backward.durations) if each is not None]
        devices = {device for each in sums for device in each.devices}
        if not devices:
            return None
        calls = 0 if forward is None else forward.calls
        return RunTime(
            device="+".join(sorted(devices)),
            forward_calls=calls,
            forward_s=0.0 if forward is None else forward.seconds,
            backward_calls=0 if backward is None else backward.durations.calls,
            backward_s=0.0 if backward is None else backward.durations.seconds,
            backward_untimed=0 if backward is None else backward.untimed,
            verified_calls=0 if self._options.verifier is None else calls,
        )

    def uncounted(self) -> Iterator[Uncounted]:
        """What could not be counted, and why."""
        reasons = dict(self._reasons)
        for recorder in self._recorders.values():
            reasons.update(recorder.missed)
        return (Uncounted(name=self.name, type_name=self._type_name, reason=reason) for reason in reasons)
