"""Who reads what off which module: torch's own, those of other libraries, and one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from torch import nn

from rnncost.counting.shape import BatchShape
from rnncost.counting.spec import CustomSpec, RnnSpec, Spec
from rnncost.errors import UnsupportedModuleError


class Reader(Protocol):
    """Tells what a module computes. It states what is executed, not what was given."""

    def spec(self, module: nn.Module) -> Spec:
        """What the module is: an ``RnnSpec``, or a ``CustomSpec`` with the operations of one row."""

    def shape(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> BatchShape:
        """The batch that one finished call computed.

        Args:
            module: the module that was called.
            args: positional arguments of the call.
            kwargs: keyword arguments of the call.
            output: what it returned. Read sizes only, and keep no tensor.
        """


READER_BACKWARD = "its backward: a reader describes the forward pass alone"
ReaderType = TypeVar("ReaderType", bound=type[Reader])

_by_type: dict[type[nn.Module], Reader] = {}
# Qualified class name -> what makes its reader: a library is never imported to be recognised.
_by_name: dict[str, Callable[[], Reader]] = {}


_listeners: list[Callable[[], None]] = []


def on_registration(listener: Callable[[], None]) -> None:
    """Has ``listener`` called whenever a reader is registered."""
    _listeners.append(listener)


def register_reader(module_type: type[nn.Module]) -> Callable[[ReaderType], ReaderType]:
    """Teaches rnncost a recurrent module of one's own; decorates a :class:`Reader` class.

    The reader serves ``module_type`` and its subclasses, and takes precedence over what rnncost
    knows itself. Kernels that the module calls are taken to be what the reader counts.

    Raises:
        UnsupportedModuleError: if ``module_type`` is not a module class, or the decorated
            class has no ``spec`` and ``shape``.
    """
    if not (isinstance(module_type, type) and issubclass(module_type, nn.Module)):
        raise UnsupportedModuleError(f"{module_type!r} is not a torch.nn.Module class; register a reader for the class")

    def register(reader_type: ReaderType) -> ReaderType:
        missing = [name for name in ("spec", "shape") if not callable(getattr(reader_type, name, None))]
        if missing:
            raise UnsupportedModuleError(
                f"reader {reader_type!r} has no {' and no '.join(missing)}; see rnncost.Reader"
            )
        _by_type[module_type] = reader_type()
        for listener in _listeners:
            listener()
        return reader_type

    return register


def register_name(qualified_name: str) -> Callable[[ReaderType], ReaderType]:
    """As :func:`register_reader`, for a class of a library that may not be installed."""

    def register(reader_type: ReaderType) -> ReaderType:
        _by_name[qualified_name] = reader_type
        return reader_type

    return register


def find_reader(module: nn.Module) -> Reader | None:
    """The reader registered for the nearest class of ``module``, if any."""
    for ancestor in type(module).__mro__:
        if ancestor in _by_type:
            return _by_type[ancestor]
        name = f"{ancestor.__module__}.{ancestor.__qualname__}"
        if name in _by_name:
            return _by_name[name]()
    return None


def read_spec(reader: Reader, module: nn.Module) -> Spec:
    """What a reader says that a module is.

    Raises:
        UnsupportedModuleError: naming the reader, if it is neither an ``RnnSpec`` nor a ``CustomSpec``.
    """
    spec = reader.spec(module)
    if not isinstance(spec, (RnnSpec, CustomSpec)):
        raise UnsupportedModuleError(
            f"{type(reader).__name__}.spec() returned {spec!r}, neither an RnnSpec nor a CustomSpec; see rnncost.Reader"
        )
    return spec
