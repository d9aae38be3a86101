"""The second eye: sees the recurrent kernels that modules call, whoever calls them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils.checkpoint import _StopRecomputationError

from rnncost.counting.kinds import CallKind
from rnncost.counting.shape import BatchShape
from rnncost.counting.spec import RnnSpec, Spec
from rnncost.errors import LengthsError
from rnncost.tracking.gradients import BackwardCall
from rnncost.tracking.kernel_arguments import kernel_name, read_cell, read_layer
from rnncost.tracking.recorder import Recorder
from rnncost.tracking.running import untraced
from rnncost.tracking.shapes import ShapeReader

# More listed calls than this are summed, but for the last, which a hook may claim yet.
MANY_CALLS = 64


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """One call of a recurrent kernel, in sizes.

    Attributes:
        kernel: its name, as in ``torch.lstm`` or ``torch.gru_cell``.
        spec: the module that such a call computes.
        kind: what else decides its cost.
        shape: its batch.
        backward: counts its backward, where that is watched.
    """

    kernel: str
    spec: RnnSpec
    kind: CallKind
    shape: BatchShape
    backward: weakref.ref[BackwardCall] | None = None


class KernelLog(TorchFunctionMode):
    """Lists the recurrent kernels that run in this thread while it is open.

    Args:
        owner: who opened it.
        stack: the tracker's logs, to which this one is added.
        covers: the module whose reader states all the work that the log lists, if one does.
        shapes: makes the shapes of the batches.
        name: of the module in whose call it lists.
        on_many: called where many calls are listed that no module's hook can claim any more.
        recorder_of: where the backward of a call is recorded, given its spec and the kernel's
            name; without it backwards are not watched.

    Attributes:
        calls: kernel calls that no hook has claimed yet.
        claimed: how often a hook claimed calls: how many watched modules ended meanwhile.
        unreadable: kernels whose arguments could not be understood.
    """

    def __init__(
        self,
        *,
        owner: object,
        stack: LogStack,
        covers: nn.Module | None = None,
        shapes: ShapeReader,
        name: str,
        recorder_of: Callable[[RnnSpec, str], Recorder] | None = None,
        on_many: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.owner = owner
        self.calls: list[KernelCall] = []
        self.active = True
        self.claimed = 0
        self.covers = covers
        self.unreadable: list[str] = []
        self._stack = stack
        self._shapes = shapes
        self._name = name
        self._on_many = on_many
        self._recorder_of = recorder_of

    def open(self) -> None:
        """Begins to list."""
        self.active = True
        _push_mode(self)  # type: ignore[no-untyped-call]
        self._stack.add(self)

    def close(self) -> None:
        """Ends listing, also where modes were entered above this one and not left yet."""
        # In another thread, or under a mode stack that somebody swapped, it stays where it is, inert.
        self.active = False
        if self in self._stack.logs:
            self._stack.logs.remove(self)
        if self not in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
            return
        above = []
        while (mode := _pop_mode()) is not self:  # type: ignore[no-untyped-call]
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kernel = kernel_name(func) if self.active else None
        try:
            result = func(*args, **(kwargs or {}))
        except _StopRecomputationError:  # checkpointing had all it needed: the kernel has run
            if kernel is not None:
                self._note(kernel, args, kwargs or {}, None)
            raise
        if kernel is not None:
            self._note(kernel, args, kwargs or {}, result)
        return result

    def _note(self, kernel: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        read = read_cell if "_cell" in kernel else read_layer
        try:
            with untraced():
                spec, kind, shape, given = read(kernel, args, kwargs, self._shapes, self._name)
        except LengthsError:
            raise  # the user's lengths do not fit
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            self.unreadable.append(kernel)
            return
        backward = None
        if self._recorder_of is not None and result is not None and torch.is_grad_enabled() and given.weights:
            recorder = self._recorder_of(spec, kernel)
            backward = BackwardCall(recorder=recorder, spec=spec, called=kind, shape=shape, given=given)
            output, *final = result if isinstance(result, tuple) and "_cell" not in kernel else (None, *_tuple(result))
            backward.watch(output, *final)
        # Weak: the hooks on its outputs keep it, and with it the graph, as long as the graph lives.
        backward_ref = None if backward is None else weakref.ref(backward)
        if len(self.calls) >= MANY_CALLS and self._on_many is not None and self._stack.logs[-1] is self:
            self._on_many()
        self.calls.append(KernelCall(kernel=kernel, spec=spec, kind=kind, shape=shape, backward=backward_ref))

    def take(self, count: int) -> list[KernelCall]:
        """Removes the last ``count`` calls, which somebody else counts, and their backward with them."""
        return self._cancelled([self.calls.pop() for _ in range(min(count, len(self.calls)))])

    def take_one(self, spec: Spec) -> list[KernelCall]:
        """As :meth:`take`, the last call that computes ``spec`` alone."""
        index = next((index for index in reversed(range(len(self.calls))) if self.calls[index].spec == spec), None)
        return [] if index is None else self._cancelled([self.calls.pop(index)])

    @staticmethod
    def _cancelled(taken: list[KernelCall]) -> list[KernelCall]:
        for call in taken:
            backward = None if call.backward is None else call.backward()
            if backward is not None:
                backward.cancel()
        return taken


def new_stack() -> LogStack:
    """The stack of a new tracker."""
    return LogStack(SharedLogs())


class SharedLogs:
    """The logs of one tracker in all threads, so that leaving it ends what an exception left open elsewhere.

    Attributes:
        logs: every log that is still alive.
        any_opened: whether there ever was one; a plain attribute, since a hook reads it at each call.
    """

    def __init__(self) -> None:
        self.logs: weakref.WeakSet[KernelLog] = weakref.WeakSet()
        self.any_opened = False


class LogStack(threading.local):
    """The open logs of one tracker in this thread, outermost first."""

    def __init__(self, shared: SharedLogs) -> None:
        # Run once in each thread, with the one record that all threads share.
        self.logs: list[KernelLog] = []
        self.shared = shared

    def claim(self, count: int) -> list[KernelCall]:
        """Takes the last ``count`` calls out of every open log, since a hook counts them."""
        return self._claim(lambda log: log.take(count))

    def claim_one(self, spec: Spec) -> list[KernelCall]:
        """Takes the last call that computes ``spec`` out of every open log, if there is one."""
        return self._claim(lambda log: log.take_one(spec))

    def _claim(self, take: Callable[[KernelLog], list[KernelCall]]) -> list[KernelCall]:
        taken: list[KernelCall] = []
        for log in self.logs:
            taken = take(log)
            log.claimed += 1
        return taken

    def covered(self, module: nn.Module) -> bool:
        """Whether an outer module's reader states the work of ``module`` too."""
        return any(log.covers is not None and log.covers is not module for log in self.logs)

    def close(self, owner: object) -> KernelLog | None:
        """Closes and returns the innermost log of ``owner``."""
        log = next((log for log in reversed(self.logs) if log.owner is owner), None)
        if log is not None:
            log.close()
        return log

    def close_all(self) -> None:
        """Closes what an exception left open, in this thread and in others."""
        for log in reversed(tuple(self.logs)):
            log.close()
        for log in tuple(self.shared.logs):
            log.active = False

    def add(self, log: KernelLog) -> None:
        """Takes in a log that was opened."""
        self.logs.append(log)
        self.shared.logs.add(log)
        self.shared.any_opened = True


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)
