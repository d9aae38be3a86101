"""Times forward calls inside the user's own run: a moment before each, a moment after, nothing waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from rnncost.errors import DeviceError
from rnncost.tracking.backward_times import BackwardTimes, Passes
from rnncost.tracking.durations import Durations, Span
from rnncost.tracking.hooks import Hook
from rnncost.tracking.kernels import LogStack
from rnncost.tracking.moments import Moment, Moments, moments_for
from rnncost.tracking.running import NO_GRAPH_TASK, raised, stopped_early

# A call that an interrupt left open must not gather all calls of the rest of the run.
_MOST_INNER = 65_536

# Called at each call, so without a function of ours around them.
_graph_task = torch._C._current_graph_task_id
_tracing_state = torch._C._get_tracing_state
_is_compiling = torch.compiler.is_compiling


class CallTimes:
    """The timers of one tracker.

    Args:
        backward: time backward passes too.
        new_moments: makes what notes moments on a device.
    """

    def __init__(self, *, backward: bool, new_moments: Callable[[torch.device], Moments] = moments_for) -> None:
        self._new_moments = new_moments
        self._moments: dict[torch.device, Moments | None] = {}
        self._durations: list[Durations] = []
        self.passes = Passes(self.moments_at) if backward else None
        self.local = _Local()

    def open(self) -> None:
        """Begins anew in all threads; calls that are running now are not timed."""
        self.local = _Local()

    def close(self) -> None:
        """Ends every backward that is still being timed and takes its hooks off."""
        self.local = _Local()
        if self.passes is not None:
            self.passes.finish_all()

    def forward(self) -> ForwardTimes:
        """The timer of one module's calls."""
        return ForwardTimes(self, self._new_durations())

    def backward(self) -> BackwardTimes | None:
        """The timer of the backward of one module's calls, where that is wanted."""
        return None if self.passes is None else BackwardTimes(self.passes, self._new_durations())

    def settle(self) -> None:
        """Waits once for each device that still has something to pass, and sums all that has ended."""
        for durations in self._durations:
            durations.drain()
        waiting = {id(span.moments): span.moments for each in self._durations for span in tuple(each.pending)}
        for moments in waiting.values():
            moments.wait()
        for durations in self._durations:
            durations.drain()

    def moments_at(self, device: torch.device) -> Moments | None:
        """What notes moments on a device; ``None`` if nothing does."""
        if device not in self._moments:
            try:
                self._moments.setdefault(device, self._new_moments(device))
            except DeviceError:
                self._moments[device] = None
        return self._moments[device]

    def _new_durations(self) -> Durations:
        durations = Durations()
        self._durations.append(durations)
        return durations


class _Call:
    """A forward call that is running."""

    __slots__ = ("device", "inner", "moments", "owner", "start")

    def __init__(self, owner: ForwardTimes, moments: Moments, device: str) -> None:
        self.owner = owner
        self.moments = moments
        self.device = device
        self.start: Moment | None = None
        self.inner: list[Span] = []


class _Local(threading.local):
    """The running calls of one thread, outermost first."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []


class ForwardTimes:
    """Times the forward calls of one module, in any thread and however they nest.

    Attributes:
        durations: what they took, each without the watched modules that it called.
    """

    def __init__(self, times: CallTimes, durations: Durations) -> None:
        self._times = times
        self.durations = durations

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call begins now."""
        if _is_compiling() or _tracing_state():
            return  # what runs now is not what will run
        times = self._times
        device = _device(module, args, kwargs)
        moments = None if device is None else times.moments_at(device)
        if device is None or moments is None:
            return
        if times.passes is not None and _graph_task() != NO_GRAPH_TASK:
            times.passes.recomputing()
        call = _Call(self, moments, device.type)
        times.local.calls.append(call)
        call.start = moments.now()

    def leave(self, output: Any) -> None:
        """The call that began last has ended, or raised."""
        calls = [] if _is_compiling() else self._times.local.calls
        # Calls above it were left by an interrupt; there is none if it began before the tracker did.
        index = len(calls) - 1
        while index >= 0 and calls[index].owner is not self:
            index -= 1
        if index < 0:
            return
        call = calls[index]
        end = call.moments.now()
        del calls[index:]
        if call.start is None or end is None or (raised(output) and not stopped_early()):
            return
        span = Span(call.moments, call.device, call.start, end, call.inner)
        if calls:
            _add_inner(calls[-1], span)
        # Time on one device cannot be taken from time on another.
        if all(inner.moments is call.moments for inner in call.inner):
            self.durations.add(span)
        passes = self._times.passes
        if passes is not None and _graph_task() != NO_GRAPH_TASK:
            passes.recomputed()


def _add_inner(outer: _Call, span: Span) -> None:
    outer.inner.append(span)
    if len(outer.inner) > _MOST_INNER:
        outer.start = None
        outer.inner.clear()


def _device(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    given = args[0] if args else kwargs.get("input")
    device = getattr(given[0] if isinstance(given, PackedSequence) else given, "device", None)
    if device is None:
        # The global hooks of torch are not given keywords; a layer computes where its weights are.
        device = next((weight.device for weight in module.parameters()), None)
    return device if isinstance(device, torch.device) else None


class TimedHook(Hook):
    """Times the calls around another hook, whose own work is not in them.

    Args:
        hook: reads the call.
        times: the timer of the module's calls.
        logs: tells which modules are inside one whose reader states their work.
    """

    def __init__(self, hook: Hook, times: ForwardTimes, logs: LogStack) -> None:
        self._hook = hook
        self._enters = type(hook).enter is not Hook.enter
        self._times = times
        self._logs = logs

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._enters:
            self._hook.enter(module, args, kwargs)
        if not self._logs.covered(module):
            self._times.enter(module, args, kwargs)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        self._times.leave(output)
        self._hook(module, args, kwargs, output)
