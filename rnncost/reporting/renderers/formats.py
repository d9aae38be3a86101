"""Finds a renderer by the name of its format or by a file's suffix, and imports it only then."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rnncost.errors import ReportFormatError


class Format(NamedTuple):
    """Where a renderer is: its file's suffix, its module below the package that lists it, its class."""

    suffix: str
    module: str
    class_name: str


def load_renderer(formats: Mapping[str, Format], name: str, *, package: str, kind: str) -> Any:
    """A new renderer called ``name``.

    Args:
        formats: those there are, by name.
        name: of one of them.
        package: that holds their modules.
        kind: what a format is called in an error.

    Raises:
        ReportFormatError: listing the formats, for any other name.
    """
    if name not in formats:
        raise ReportFormatError(f"no {kind} {name!r}; use one of {', '.join(formats)}")
    found = formats[name]
    return getattr(importlib.import_module(f"{package}.{found.module}"), found.class_name)()


def format_of_path(formats: Mapping[str, Format], path: str | Path, *, kind: str, others: tuple[str, ...] = ()) -> str:
    """The name of the format that the suffix of ``path`` stands for.

    Args:
        formats: those there are, by name.
        path: of the file to be written.
        kind: what a format is called in an error.
        others: suffixes to be named in an error as well.

    Raises:
        ReportFormatError: listing the suffixes, for any other one.
    """
    suffix = Path(path).suffix.lower()
    for name, each in formats.items():
        if suffix == each.suffix:
            return name
    suffixes = ", ".join([*(each.suffix for each in formats.values()), *others])
    raise ReportFormatError(f"{path}: no {kind} has the suffix {suffix!r}; use one of {suffixes}")
