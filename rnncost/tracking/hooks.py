"""Forward hooks on one module that its copies and pickles do not inherit."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

# Copying and pickling look for it in the instance before the class.
_STATE = "__getstate__"
_POST = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
_PRE = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs")


class Hook:
    """A forward hook of rnncost's."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Reads one finished call of ``module``; ``output`` is ``None`` where its forward raised."""
        raise NotImplementedError

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called before the forward, where a class defines it."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        # A class that copies its own __dict__ passes _StateWithoutHooks by (parametrised modules
        # do). Its copy then holds this instead: it takes any arguments, does nothing, and is
        # found in every Python, with or without rnncost.
        return getattr, (contextlib.nullcontext(), "__exit__")


class _Enter(Hook):
    """The forward pre-hook of a hook that wants to know when a call begins."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any = None) -> None:
        self._hook.enter(module, args, kwargs)


class HookedModule:
    """Has ``hook`` called after each forward of ``module``, also one that raised, until removed.

    While it is in place the module's ``__getstate__`` leaves it out, so that a deep copy or a
    saved model is as it would be without rnncost, and loads where rnncost is missing.
    """

    def __init__(self, module: nn.Module, hook: Hook) -> None:
        self._module = module
        self._handles: list[RemovableHandle] = []
        if type(hook).enter is not Hook.enter:
            self._handles.append(module.register_forward_pre_hook(_Enter(hook), with_kwargs=True))
        self._handles.append(module.register_forward_hook(hook, with_kwargs=True, always_call=True))
        if not isinstance(module.__dict__.get(_STATE), _StateWithoutHooks):
            module.__dict__[_STATE] = _StateWithoutHooks(module)

    def remove(self) -> None:
        """Takes the hook off; does no harm when repeated."""
        for handle in self._handles:
            handle.remove()
        still_hooked = any(isinstance(hook, Hook) for hook in self._module._forward_hooks.values())
        if not still_hooked and isinstance(self._module.__dict__.get(_STATE), _StateWithoutHooks):
            del self._module.__dict__[_STATE]


class _StateWithoutHooks:
    """A module's ``__getstate__`` while it is hooked."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __call__(self) -> Any:
        own = getattr(type(self._module), _STATE, None)
        state = own(self._module) if own else self._module.__dict__
        if not isinstance(state, dict):
            return state
        without = {name: value for name, value in state.items() if name != _STATE}
        for hooks, *companions in (_POST, _PRE):
            ours = {key for key, hook in getattr(self._module, hooks).items() if isinstance(hook, Hook)}
            for name in (hooks, *companions):
                if name in without:
                    items = without[name].items()
                    without[name] = OrderedDict((key, value) for key, value in items if key not in ours)
        return without

    def __deepcopy__(self, memo: dict[int, Any]) -> _StateWithoutHooks:
        return _StateWithoutHooks(memo.get(id(self._module), self._module))
