"""A forward hook on one module that its copies and pickles do not inherit."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

# Copying and pickling look for it in the instance before the class.
_STATE = "__getstate__"


class Hook:
    """A forward hook of rnncost's."""

    __slots__ = ()

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Reads one finished call of ``module``."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        # A class that copies its own __dict__ passes _StateWithoutHooks by (parametrised modules
        # do). Its copy then holds this instead: it takes any arguments, does nothing, and is
        # found in every Python, with or without rnncost.
        return getattr, (contextlib.nullcontext(), "__exit__")


class HookedModule:
    """Has ``hook`` called after each forward of ``module``, until removed.

    While it is in place the module's ``__getstate__`` leaves it out, so that a deep copy or a
    saved model is as it would be without rnncost, and loads where rnncost is missing.
    """

    def __init__(self, module: nn.Module, hook: Hook) -> None:
        self._module = module
        self._handle: RemovableHandle = module.register_forward_hook(hook, with_kwargs=True)
        if not isinstance(module.__dict__.get(_STATE), _StateWithoutHooks):
            module.__dict__[_STATE] = _StateWithoutHooks(module)

    def remove(self) -> None:
        """Takes the hook off; does no harm when repeated."""
        self._handle.remove()
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
        ours = {key for key, hook in self._module._forward_hooks.items() if isinstance(hook, Hook)}
        without = {name: value for name, value in state.items() if name != _STATE}
        for name in ("_forward_hooks", "_forward_hooks_with_kwargs"):
            if name in without:
                items = without[name].items()
                without[name] = OrderedDict((key, value) for key, value in items if key not in ours)
        return without

    def __deepcopy__(self, memo: dict[int, Any]) -> _StateWithoutHooks:
        return _StateWithoutHooks(memo.get(id(self._module), self._module))
