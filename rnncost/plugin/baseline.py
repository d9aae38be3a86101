"""Baselines: what each test of a run executed, as a JSON file to be committed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rnncost.errors import ReportFormatError
from rnncost.plugin.records import Work
from rnncost.reporting.storage import parse_json, write_file

SCHEMA_VERSION = 1
_INNERMOST = re.compile(r"\{\n[^{}]*\n *\}")

Baseline = dict[str, Work]


def load_baseline(path: Path) -> Baseline:
    """Reads a baseline: the work of each test, by node id.

    Raises:
        ReportFormatError: naming the file and the place, if it is none.
        OSError: if it cannot be read.
    """
    document = parse_json(path.read_bytes(), source=str(path))
    if not isinstance(document, dict) or "tests" not in document:
        raise ReportFormatError(f"{path}: not a baseline of rnncost's pytest plugin: no `tests` at $")
    if document.get("schema_version") != SCHEMA_VERSION:
        found = document.get("schema_version")
        raise ReportFormatError(f"{path}: schema_version {found!r}; this rnncost reads version {SCHEMA_VERSION}")
    try:
        return msgspec.convert(document["tests"], Baseline)
    except msgspec.ValidationError as error:
        raise ReportFormatError(f"{path}: {error}, under `tests`") from None


def save_baseline(path: Path, tests: Baseline) -> None:
    """Writes a baseline, making its folder if need be.

    The same work always gives the same bytes: sorted by node id, without dates, versions or machines.

    Raises:
        OSError: if it cannot be written; an older file is left as it was.
    """
    path.parent.mkdir(exist_ok=True)
    saved = {name: _saved(tests[name]) for name in sorted(tests)}
    write_file(path, to_text({"schema_version": SCHEMA_VERSION, "tests": saved}))


def save_run(path: Path, works: Baseline, outcomes: Mapping[str, str]) -> None:
    """Writes the work and the outcome of each test, with totals, for other tools.

    Raises:
        OSError: if it cannot be written.
    """
    tests = {
        name: {
            "outcome": outcomes[name],
            "saved_fraction": work.saved_fraction,
            "wasted_fraction": work.wasted_fraction,
            "total": msgspec.to_builtins(work.total),
            **msgspec.to_builtins(work),
        }
        for name, work in sorted(works.items())
    }
    write_file(path, to_text({"schema_version": SCHEMA_VERSION, "tests": tests}))


def to_text(document: Any) -> str:
    """JSON with one line for each figure, so that a diff names what changed."""
    text = json.dumps(document, indent=1)
    # The figures of the three layouts belong on one line. Text in JSON holds no line break, so none is touched.
    return _INNERMOST.sub(_on_one_line, text) + "\n"


def _on_one_line(found: re.Match[str]) -> str:
    return "{" + re.sub(r"\n *", " ", found[0][1:-1]).strip() + "}"


def _saved(work: Work) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(work)
    for each in document["uncounted"]:
        each.pop("reason", None)
    return document
