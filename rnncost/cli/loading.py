"""Finds the model and its batches in a Python file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rnncost.errors import ModelLoadError

if TYPE_CHECKING:
    from torch import nn

_WAYS = (
    "define build() returning (model, batches), or model and batches, or exactly one torch.nn.Module, "
    "or name an object: MODEL.PY:NAME"
)


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model and the batches to call it on."""

    model: nn.Module
    batches: Iterable[Any]


def load_target(target: str, *, needs_batches: bool = True) -> Loaded:
    """Loads ``MODEL.PY`` or ``MODEL.PY:NAME``.

    Exceptions of the file's own code are not caught.

    Raises:
        ModelLoadError: if there is no such file, or what it offers is missing or ambiguous.
    """
    path_text, name = _split(target)
    path = Path(path_text)
    if path.exists() and path.suffix != ".py":
        raise ModelLoadError(f"{path_text}: not a Python file; give a MODEL.PY")
    if not path.is_file():
        raise ModelLoadError(f"{path_text}: there is no such file")
    module = _import_file(path.resolve())
    model, batches = _find(module, name, path_text)
    if not _is_module(model):
        raise ModelLoadError(f"{target}: the model is a {type(model).__name__}, not a torch.nn.Module")
    if not needs_batches:
        return Loaded(model=model, batches=())
    if batches is None:
        raise ModelLoadError(
            f"{target}: no batches to run; define `batches` or build() returning (model, batches), "
            "or give --lengths for an estimate"
        )
    return Loaded(model=model, batches=_as_batches(batches, target))


def _split(target: str) -> tuple[str, str | None]:
    path, colon, name = target.rpartition(":")
    return (path, name) if colon and path.endswith(".py") else (target, None)


def _import_file(path: Path) -> ModuleType:
    """Runs a file as Python would: its folder first on the path, its package known to it."""
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        parts.insert(0, root.name)
        root = root.parent
    for folder in (str(root), str(path.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    # Processes that a data loader spawns find the module by this name.
    name = ".".join(parts)
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) != str(path) and len(parts) == 1:
        name = f"rnncost_model_{path.stem}"
    if len(parts) > 1:
        importlib.import_module(".".join(parts[:-1]))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _find(module: ModuleType, name: str | None, path: str) -> tuple[Any, Any]:
    offered = {key: value for key, value in vars(module).items() if not key.startswith("_")}
    if name is not None:
        if name not in vars(module):
            raise ModelLoadError(f"{path}: defines no {name!r}; {_offer(module, offered)}")
        return _made(vars(module)[name], offered.get("batches"))
    if callable(offered.get("build")):
        built = _called(offered["build"], "build")
        if not (isinstance(built, tuple) and len(built) == 2):
            raise ModelLoadError(f"{path}: build() returned a {type(built).__name__}, not (model, batches)")
        return built
    if "model" in offered:
        return _made(offered["model"], offered.get("batches"))
    return _made(_only_module(module, offered, path), offered.get("batches"))


def _only_module(module: ModuleType, offered: dict[str, Any], path: str) -> Any:
    instances = {id(value): value for value in offered.values() if _is_module(value)}
    found = list(instances.values()) or [value for value in offered.values() if _is_ready_class(value, module)]
    if len(found) != 1:
        problem = "no model found" if not found else f"{len(found)} models found"
        raise ModelLoadError(f"{path}: {problem}; {_WAYS}; {_offer(module, offered)}")
    return found[0]


def _is_ready_class(value: Any, module: ModuleType) -> bool:
    if not (inspect.isclass(value) and issubclass(value, _module_class()) and value.__module__ == module.__name__):
        return False
    try:
        inspect.signature(value).bind()
    except TypeError:
        return False
    return True


def _made(value: Any, batches: Any) -> tuple[Any, Any]:
    """Makes what was named: a class or function is called; a function may return batches too."""
    if _is_module(value) or not callable(value):
        return value, batches
    made = _called(value, getattr(value, "__name__", type(value).__name__))
    if isinstance(made, tuple) and len(made) == 2:
        return made
    return made, batches


def _called(function: Any, name: str) -> Any:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ModelLoadError(f"{name} cannot be called without arguments: {error}") from None
    except ValueError:  # a builtin without a signature
        pass
    return function()


def _as_batches(batches: Any, target: str) -> Iterable[Any]:
    made = _called(batches, "batches") if inspect.isroutine(batches) else batches
    if _is_one_batch(made) or not isinstance(made, Iterable):
        raise ModelLoadError(
            f"{target}: batches is a {type(made).__name__}; it must be an iterable of batches, such as [batch]"
        )
    return made


def _offer(module: ModuleType, offered: dict[str, Any]) -> str:
    own = [
        f"{key} ({type(value).__name__})"
        for key, value in offered.items()
        if _is_module(value) or getattr(value, "__module__", None) == module.__name__
    ]
    return f"the file offers {', '.join(own)}" if own else "the file defines no function, class or module"


def _module_class() -> type[nn.Module]:
    from torch import nn

    return nn.Module


def _is_module(value: Any) -> bool:
    return isinstance(value, _module_class())


def _is_one_batch(value: Any) -> bool:
    from torch import Tensor
    from torch.nn.utils.rnn import PackedSequence

    return isinstance(value, (Tensor, PackedSequence, dict, str))
