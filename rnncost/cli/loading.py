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
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rnncost.errors import ModelLoadError

_WAYS = (
    "define build() returning (model, batches), or model and batches, or exactly one torch.nn.Module, "
    "or name an object: MODEL.PY:NAME"
)


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model and the batches to call it on."""

    model: nn.Module
    batches: Iterable[Any]


def load_target(target: str) -> Loaded:
    """Loads ``MODEL.PY`` or ``MODEL.PY:NAME``.

    Exceptions of the file's own code are not caught.

    Raises:
        ModelLoadError: if there is no such file, or what it offers is missing or ambiguous.
    """
    path_text, name = _split(target)
    path = Path(path_text)
    if not path.is_file():
        raise ModelLoadError(f"{path_text}: there is no such file")
    if path.suffix != ".py":
        raise ModelLoadError(f"{path_text}: not a Python file; give a MODEL.PY")
    module = _import_file(path.resolve())
    model, batches = _find(module, name, path_text)
    if not isinstance(model, nn.Module):
        raise ModelLoadError(f"{target}: the model is a {type(model).__name__}, not a torch.nn.Module")
    if batches is None:
        raise ModelLoadError(f"{target}: no batches to run; define `batches`, or build() returning (model, batches)")
    return Loaded(model=model, batches=_as_batches(batches, target))


def call_model(model: nn.Module, batch: Any) -> Any:
    """Calls ``model`` on a batch: a tensor, a ``PackedSequence``, positional arguments or keywords.

    Raises:
        ModelLoadError: for a batch of any other type.
    """
    if isinstance(batch, (Tensor, PackedSequence)):  # a PackedSequence is a tuple too
        return model(batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    if isinstance(batch, dict):
        return model(**batch)
    raise ModelLoadError(
        f"a batch is a {type(batch).__name__}; it must be a tensor, a PackedSequence, a tuple of positional "
        "arguments or a dict of keyword arguments"
    )


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
    name = ".".join(parts) if len(parts) > 1 else f"rnncost_model_{path.stem}"
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
        built = offered["build"]()
        if not (isinstance(built, tuple) and len(built) == 2):
            raise ModelLoadError(f"{path}: build() returned a {type(built).__name__}, not (model, batches)")
        return built
    if "model" in offered:
        return _made(offered["model"], offered.get("batches"))
    return _made(_only_module(module, offered, path), offered.get("batches"))


def _only_module(module: ModuleType, offered: dict[str, Any], path: str) -> Any:
    instances = {id(value): value for value in offered.values() if isinstance(value, nn.Module)}
    found = list(instances.values()) or [value for value in offered.values() if _is_ready_class(value, module)]
    if len(found) != 1:
        problem = "no model found" if not found else f"{len(found)} models found"
        raise ModelLoadError(f"{path}: {problem}; {_WAYS}; {_offer(module, offered)}")
    return found[0]


def _is_ready_class(value: Any, module: ModuleType) -> bool:
    if not (inspect.isclass(value) and issubclass(value, nn.Module) and value.__module__ == module.__name__):
        return False
    try:
        inspect.signature(value).bind()
    except TypeError:
        return False
    return True


def _made(value: Any, batches: Any) -> tuple[Any, Any]:
    """Makes what was named: a class or function is called; a function may return batches too."""
    if isinstance(value, nn.Module) or not callable(value):
        return value, batches
    made = value()
    if isinstance(made, tuple) and len(made) == 2:
        return made
    return made, batches


def _as_batches(batches: Any, target: str) -> Iterable[Any]:
    made = batches() if inspect.isroutine(batches) else batches
    if isinstance(made, (Tensor, PackedSequence, dict, str)) or not isinstance(made, Iterable):
        raise ModelLoadError(
            f"{target}: batches is a {type(made).__name__}; it must be an iterable of batches, such as [batch]"
        )
    return made


def _offer(module: ModuleType, offered: dict[str, Any]) -> str:
    own = [
        f"{key} ({type(value).__name__})"
        for key, value in offered.items()
        if isinstance(value, nn.Module) or getattr(value, "__module__", None) == module.__name__
    ]
    return f"the file offers {', '.join(own)}" if own else "the file defines no function, class or module"
