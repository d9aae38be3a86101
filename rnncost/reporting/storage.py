"""Reports as files: written whole or not at all, and read with an error that says where it broke."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from rnncost.counting.tally import Tally
from rnncost.errors import ReportFormatError
from rnncost.reporting.report import SCHEMA_VERSION, CostReport
from rnncost.units import printable

_LARGEST_SUM = 10**60
# Products of a sum and two such sizes are still floats.
_LARGEST_NUMBER = 10**100


def load_report(path: str | Path) -> CostReport:
    """Reads a report from a JSON file; see :meth:`CostReport.load`."""
    return decode_report(Path(path).read_bytes(), source=str(path))


def decode_report(data: bytes, *, source: str) -> CostReport:
    """Reads a report from the bytes of a JSON file.

    Counts in the file are for its readers: they are derived again from the sums, never trusted.

    Args:
        data: the file's content, UTF-8.
        source: its name, for errors.

    Raises:
        ReportFormatError: naming ``source`` and the place, if this is not such a report.
    """
    document = parse_json(data, source=source)
    if not isinstance(document, dict) or not isinstance(document.get("schema_version"), int):
        raise ReportFormatError(f"{source}: not an rnncost report: no integer `schema_version` at $")
    version = document["schema_version"]
    if not 1 <= version <= SCHEMA_VERSION:
        raise ReportFormatError(
            f"{source}: schema_version {version} at $.schema_version; this rnncost reads versions "
            f"1 to {SCHEMA_VERSION}" + (", so a newer rnncost is needed" if version > SCHEMA_VERSION else "")
        )
    if "layers" not in document:
        raise ReportFormatError(f"{source}: not an rnncost report: no `layers` at $")
    _check_numbers(document, source)
    try:
        report = msgspec.convert(document, CostReport)
    except msgspec.ValidationError as error:
        raise ReportFormatError(f"{source}: {error}") from None
    for number, layer in enumerate(report.layers):
        tallies = [*(call.forward for call in layer.calls), *(call.backward for call in layer.backward_calls)]
        for tally in tallies:
            _check_sums(tally, f"{source}: $.layers[{number}]")
    return report


def _check_numbers(document: Any, source: str) -> None:
    """Refuses what no report is saved with and no renderer can draw: NaN, infinity, endless integers.

    Without recursion, since fields that are not read may be nested deeply.
    """
    waiting: list[tuple[Any, str]] = [(document, "$")]
    while waiting:
        value, place = waiting.pop()
        if isinstance(value, dict):
            waiting += [(each, f"{place}.{key}") for key, each in value.items()]
        elif isinstance(value, list):
            waiting += [(each, f"{place}[{number}]") for number, each in enumerate(value)]
        elif isinstance(value, float) and not math.isfinite(value):
            raise ReportFormatError(f"{source}: {printable(place)} is {value}, which is no number")
        elif isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
            raise ReportFormatError(
                f"{source}: {printable(place)} is beyond {_LARGEST_NUMBER:.0e}, which no run reaches"
            )


def _check_sums(tally: Tally, place: str) -> None:
    sums = msgspec.structs.asdict(tally)
    for name, value in sums.items():
        if value is not None and value > _LARGEST_SUM:
            raise ReportFormatError(f"{place}: {name} is beyond {_LARGEST_SUM:.0e}, which no run reaches")
    for less, more in (
        ("packed_rows", "rows"),
        ("rows", "padded_rows"),
        ("first_rows", "rows"),
        ("steps", "padded_steps"),
    ):
        if sums[less] is not None and sums[less] > sums[more]:
            raise ReportFormatError(f"{place}: {less} {sums[less]} is more than {more} {sums[more]}")


def parse_json(data: bytes, *, source: str) -> Any:
    """Reads JSON text of any kind.

    Raises:
        ReportFormatError: naming ``source`` and the place where it broke.
    """
    try:
        return json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise ReportFormatError(f"{source}: broken JSON at {place}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise ReportFormatError(f"{source}: not UTF-8 text at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise ReportFormatError(f"{source}: unreadable JSON: {error}") from None


def write_file(path: str | Path, content: str | bytes) -> None:
    """Replaces a file by ``content``, whole or not at all: a full disk leaves the old file."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # a pipe, or /dev/stdout
        target.write_bytes(data)
        return
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
