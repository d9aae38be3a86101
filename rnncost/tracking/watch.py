"""Which modules a tracker watches: those of one model, or every one of the process."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.hooks import RemovableHandle

from rnncost.counting.spec import RnnSpec
from rnncost.reporting.layer import LayerCost, Uncounted
from rnncost.tracking.hooks import HookedModule
from rnncost.tracking.naming import distinct, name_from_callers
from rnncost.tracking.readers import SizesHook, is_recurrent, read_spec
from rnncost.tracking.recorder import Recorder
from rnncost.tracking.scripted import find_scripted


class Watch(Protocol):
    """Installs hooks, takes them off, and tells what they saw."""

    def install(self) -> None: ...
    def remove(self) -> None: ...
    def layers(self) -> Iterator[LayerCost]: ...
    def uncounted(self) -> tuple[Uncounted, ...]: ...


class _Watched:
    """One recurrent module: its name, its sizes, and what was recorded of it."""

    __slots__ = ("hook", "name", "recorder", "spec")

    def __init__(self, name: str, spec: RnnSpec) -> None:
        self.name = name
        self.spec = spec
        self.recorder = Recorder(seed=name)
        self.hook = SizesHook(self.recorder)

    def cost(self) -> LayerCost:
        calls, samples = self.recorder.snapshot()
        return LayerCost(name=self.name, spec=self.spec, calls=calls, samples=samples)


class ModelWatch:
    """Watches the recurrent modules of one model, in the model's own order."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._watched: dict[nn.Module, _Watched] = {}
        self._hooks: list[HookedModule] = []
        self._uncounted: tuple[Uncounted, ...] = ()

    def install(self) -> None:
        self._uncounted = tuple(find_scripted(self._model))
        for name, module in self._model.named_modules():
            if is_recurrent(module):
                watched = self._watched.setdefault(module, _Watched(name or type(module).__name__, read_spec(module)))
                self._hooks.append(HookedModule(module, watched.hook))

    def remove(self) -> None:
        while self._hooks:
            self._hooks.pop().remove()

    def layers(self) -> Iterator[LayerCost]:
        return (watched.cost() for watched in self._watched.values())

    def uncounted(self) -> tuple[Uncounted, ...]:
        return self._uncounted


class ProcessWatch:
    """Watches every recurrent module of the process through torch's global forward hook."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: RemovableHandle | None = None
        # Found by the identity of a module's hook dictionary, which the replicas that
        # DataParallel makes anew for each call share with their original.
        self._by_identity: dict[int, _Watched] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._watched: list[_Watched] = []
        self._scripted: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._uncounted: list[Uncounted] = []

    def install(self) -> None:
        self._handle = register_module_forward_hook(self._on_call, with_kwargs=True)

    def remove(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def layers(self) -> Iterator[LayerCost]:
        with self._lock:
            watched = tuple(self._watched)
        return (each.cost() for each in watched)

    def uncounted(self) -> tuple[Uncounted, ...]:
        with self._lock:
            return tuple(dict.fromkeys(self._uncounted))

    def _on_call(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if isinstance(module, nn.RNNBase):
            watched = self._by_identity.get(id(module._forward_hooks)) or self._meet(module)
            watched.hook(module, args, kwargs, output)
        elif isinstance(module, torch.jit.ScriptModule) and module not in self._scripted:
            self._meet_scripted(module)

    def _meet(self, module: nn.Module) -> _Watched:
        name, spec, hooks = name_from_callers(module), read_spec(module), module._forward_hooks
        key = id(hooks)
        with self._lock:
            if key not in self._by_identity:
                watched = _Watched(distinct(name, {each.name for each in self._watched}), spec)
                self._watched.append(watched)
                self._by_identity[key] = watched
                self._alive[key] = weakref.ref(hooks, functools.partial(self._forget, key))
            return self._by_identity[key]

    def _forget(self, key: int, _: weakref.ref[Any]) -> None:
        # The identity may be given to another module now; what was recorded stays.
        self._by_identity.pop(key, None)
        self._alive.pop(key, None)

    def _meet_scripted(self, module: nn.Module) -> None:
        found = tuple(find_scripted(module))
        with self._lock:
            self._scripted.add(module)
            self._uncounted.extend(found)
