"""Which modules a tracker watches: those of one model, or every one of the process."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.utils.hooks import RemovableHandle

from rnncost.reporting.layer import LayerCost, Uncounted
from rnncost.tracking.call_times import TimedHook
from rnncost.tracking.fitting import is_recurrent, uncovered, watch
from rnncost.tracking.hooks import Hook, HookedModule
from rnncost.tracking.kernels import LogStack
from rnncost.tracking.naming import DistinctNames, name_from_callers, without_compile_prefix
from rnncost.tracking.scripted import find_scripted
from rnncost.tracking.watched import Options, Watched

_ADDED = "it came into the model after the tracker was entered; enter the tracker once the model is complete"

_TAKEN_AWAY = Uncounted(
    name="any", type_name="Module", reason="torch's global hooks were taken away, and what ran after that went unseen"
)


class Watch(Protocol):
    """Installs hooks, takes them off, and tells what they saw."""

    def install(self) -> None: ...
    def remove(self) -> None: ...
    def layers(self) -> Iterator[LayerCost]: ...
    def uncounted(self) -> tuple[Uncounted, ...]: ...


class ModelWatch:
    """Watches the recurrent modules of one model, in the model's own order."""

    def __init__(self, model: nn.Module, options: Options) -> None:
        self._model = model
        self._options = options
        self._watched: dict[nn.Module, Watched] = {}
        self._uncovered: set[nn.Module] = set()
        self._hooks: list[HookedModule] = []
        self._scripted: tuple[Uncounted, ...] = ()

    def install(self) -> None:
        self._scripted = tuple(find_scripted(self._model))
        self._uncovered = {module for _, module in uncovered(self._model)}
        for name, module in self._model.named_modules():
            if module not in self._watched:
                watched = watch(without_compile_prefix(name) or type(module).__name__, module, self._options)
                if watched is not None:
                    self._watched[module] = watched
            if module in self._watched:
                self._watched[module].listen(True)
                hook: Hook = self._watched[module]
                if module not in self._uncovered:
                    hook = _UnlessCovered(hook, self._options.logs)
                times = self._watched[module].times
                if times is not None:
                    hook = TimedHook(hook, times, self._options.logs)
                self._hooks.append(HookedModule(module, hook))

    def remove(self) -> None:
        while self._hooks:
            self._hooks.pop().remove()
        for watched in self._watched.values():
            watched.listen(False)

    def layers(self) -> Iterator[LayerCost]:
        for module, watched in self._watched.items():
            for cost in watched.costs():
                # A part of what a reader states is a layer of its own only where it is called by itself.
                if cost.calls or module in self._uncovered:
                    yield cost

    def uncounted(self) -> tuple[Uncounted, ...]:
        found = [*self._scripted, *(each for watched in self._watched.values() for each in watched.uncounted())]
        for name, module in self._model.named_modules():
            if module not in self._watched and is_recurrent(module):
                found.append(Uncounted(name=name, type_name=type(module).__name__, reason=_ADDED))
        return tuple(dict.fromkeys(found))


class _UnlessCovered(Hook):
    """The hook of a module inside one whose reader states its work: silent while that one runs."""

    def __init__(self, hook: Hook, logs: LogStack) -> None:
        self._hook = hook
        self._logs = logs

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if type(self._hook).enter is not Hook.enter and not self._logs.covered(module):
            self._hook.enter(module, args, kwargs)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if not self._logs.covered(module):
            self._hook(module, args, kwargs, output)


class ProcessWatch:
    """Watches every recurrent module of the process through torch's global forward hooks."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._handles: list[RemovableHandle] = []
        # Found by the identity of a module's hook dictionary, which the replicas that
        # DataParallel makes anew for each call share with their original.
        self._by_identity: dict[int, Watched | None] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._watched: list[Watched] = []
        self._names = DistinctNames()
        self._scripted: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._uncounted: list[Uncounted] = []

    def install(self) -> None:
        for watched in self._watched:
            watched.listen(True)
        self._handles.append(torch_module.register_module_forward_pre_hook(self._enter))
        self._handles.append(torch_module.register_module_forward_hook(self._leave, with_kwargs=True, always_call=True))

    def remove(self) -> None:
        installed = {*torch_module._global_forward_pre_hooks, *torch_module._global_forward_hooks}
        if not {handle.id for handle in self._handles} <= installed:
            self._uncounted.append(_TAKEN_AWAY)
        while self._handles:
            handle = self._handles.pop()
            handle.remove()
            # The handle of a global hook does not know of these two.
            for companions in (
                torch_module._global_forward_hooks_with_kwargs,
                torch_module._global_forward_hooks_always_called,
            ):
                companions.pop(handle.id, None)
        for watched in self._watched:
            watched.listen(False)

    def layers(self) -> Iterator[LayerCost]:
        with self._lock:
            watched = tuple(self._watched)
        return (cost for each in watched for cost in each.costs())

    def uncounted(self) -> tuple[Uncounted, ...]:
        with self._lock:
            watched, scripted = tuple(self._watched), tuple(self._uncounted)
        return tuple(dict.fromkeys([*scripted, *(found for each in watched for found in each.uncounted())]))

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if is_recurrent(module) and not self._options.logs.covered(module):
            watched = self._meet(module)
            if watched is not None and type(watched).enter is not Watched.enter:
                watched.enter(module, args, {})
            if watched is not None and watched.times is not None:
                watched.times.enter(module, args, {})

    def _leave(self, module: nn.Module, args: tuple[Any, ...], *kwargs_and_output: Any) -> None:
        # Torch leaves the keywords out when it calls the hook for a forward that raised.
        kwargs, output = kwargs_and_output if len(kwargs_and_output) == 2 else ({}, None)
        if is_recurrent(module):
            watched = None if self._options.logs.covered(module) else self._meet(module)
            if watched is not None:
                if watched.times is not None:
                    watched.times.leave(output)
                watched(module, args, kwargs, output)
        elif isinstance(module, torch.jit.ScriptModule) and module not in self._scripted:
            self._meet_scripted(module)

    def _meet(self, module: nn.Module) -> Watched | None:
        hooks = module._forward_hooks
        key = id(hooks)
        if key in self._by_identity:
            return self._by_identity[key]
        name = name_from_callers(module, otherwise=type(module).__name__)
        with self._lock:
            if key not in self._by_identity:
                watched = watch(self._names.distinct(name), module, self._options)
                if watched is not None:
                    self._watched.append(watched)
                self._by_identity[key] = watched
                self._alive[key] = weakref.ref(hooks, functools.partial(self._forget, key))
            return self._by_identity[key]

    def _forget(self, key: int, _: weakref.ref[Any]) -> None:
        # The identity may be given to another module now; what was recorded stays.
        self._by_identity.pop(key, None)
        self._alive.pop(key, None)

    def _meet_scripted(self, module: nn.Module) -> None:
        prefix = name_from_callers(module, otherwise="")
        with self._lock:
            self._scripted.add(module)
            self._uncounted.extend(find_scripted(module, prefix=prefix))
