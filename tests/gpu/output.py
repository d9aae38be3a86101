"""What a run on a device found, as JSON with every figure and as a page to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from rnncost.reporting.timing import LayoutTiming
from rnncost.timing.conditions import device_name, library_versions
from tests.gpu.check import Check
from tests.gpu.table import Row

_HEADINGS = (
    *("layer", "B", "lengths", "dtype", "pass", "rows", "kernels", "padded", "packed", "by wall clock", "with packing"),
    *("2 / 4 / 8 buckets", "split", "best", "memory, packed", "rounds"),
)
_MOST_WARNINGS = 10


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """All of a run.

    Attributes:
        command: how it was called.
        device: what the device calls itself.
        libraries: releases of torch, CUDA and the kernel library.
        settings: what torch was set to that times and results depend on.
        checks: what was proved, or not.
        rows: the table of layouts.
        warnings: what torch and rnncost warned about, each once.
    """

    command: str
    device: str
    libraries: dict[str, str]
    settings: dict[str, str]
    checks: tuple[Check, ...]
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a check failed."""
        return any(check.outcome == "failed" for check in self.checks)


def conditions_of(device: torch.device) -> tuple[str, dict[str, str], dict[str, str]]:
    """Name, libraries and settings of a device."""
    libraries = library_versions(device)
    settings = {"threads": str(torch.get_num_threads())}
    if device.type == "cuda":
        libraries["CUDA"] = str(torch.version.cuda)
        libraries["compute capability"] = ".".join(map(str, torch.cuda.get_device_capability(device)))
        settings["cuDNN enabled"] = str(torch.backends.cudnn.enabled)
        settings["cuDNN allows TF32"] = str(torch.backends.cudnn.allow_tf32)
    return device_name(device), libraries, settings


def write(found: Found, folder: Path) -> tuple[Path, Path]:
    """Writes ``gpu.json`` and ``gpu.md``."""
    folder.mkdir(parents=True, exist_ok=True)
    raw, page = folder / "gpu.json", folder / "gpu.md"
    raw.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    page.write_text(render(found))
    return raw, page


def render(found: Found) -> str:
    """The page: checks first, then the table."""
    libraries = ", ".join(f"{name} {release}" for name, release in found.libraries.items())
    settings = ", ".join(f"{name} {value}" for name, value in found.settings.items())
    done = [row for row in found.rows if row.layer is not None]
    missing = [row for row in found.rows if row.layer is None and not row.error]
    lines = [
        f"# On {found.device}",
        "",
        f"Written by `{found.command}`: {libraries}; {settings}.",
        "",
        "## Checks",
        "",
        "| check | outcome | figures |",
        "|---|---|---|",
        *(f"| {check.name} | {check.outcome} | {_cell(check.text)} |" for check in found.checks),
        "",
        "## Layouts",
        "",
        "Input as wide as the hidden size; one sequence of T = 100 steps and the rest uniform on 1 to 100, or one of",
        "100 and the rest of 10. Times of the whole pass, as ratios to padded in interleaved rounds; ! where padded",
        "results are not those of a packed run, ? where the 95 % interval allows no verdict. Packed is the module",
        "call alone; by wall clock, the same in a plain loop that waits for the device before and after each call.",
        "Rows is the real share of the padded rows; memory is the peak of packed over that of padded.",
        "",
        *_verdicts(done),
        "",
        f"| {' | '.join(_HEADINGS)} |",
        "|---" * len(_HEADINGS) + "|",
        *map(_line, done),
        "",
        *(f"- failed: {_case(row)}: {_cell(row.error)}" for row in found.rows if row.error),
        *(f"- not run, the time was up: {_case(row)}" for row in missing),
        *(f"- warned: {_cell(warning)}" for warning in found.warnings[:_MOST_WARNINGS]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """In how many cases packing paid, for each pass."""
    lines = []
    for backward, name in ((False, "forward"), (True, "forward + backward")):
        packed = [_timings(row)["packed"] for row in rows if row.case.backward == backward]
        counts = {verdict: sum(each.verdict == verdict for each in packed) for verdict in ("faster", "slower")}
        if packed:
            lines.append(
                f"Packed {name}: faster than padded in {counts['faster']} and slower in {counts['slower']}"
                f" of {len(packed)} cases."
            )
    return lines


def _timings(row: Row) -> dict[str, LayoutTiming]:
    return {} if row.layer is None else {timing.layout: timing for timing in row.layer.timings}


def _line(row: Row) -> str:
    layer, case, timings = row.layer, row.case, _timings(row)
    assert layer is not None
    assert layer.conditions is not None
    conditions, padded = layer.conditions, timings["padded"]
    buckets = [f"bucketed({count})" for count in (2, 4, 8)]
    cells: list[Any] = [
        f"{case.kind.upper()} {case.hidden}",
        case.sequences,
        case.lengths,
        case.dtype,
        "forward + backward" if case.backward else "forward",
        f"{conditions.rows / (conditions.sequences * conditions.steps):.2f}",
        " / ".join(dict.fromkeys(conditions.kernels.values())),
        f"{padded.total_s * 1e3:.2f} ms{'' if padded.exact else ' !'}",
        _ratio(timings.get("packed")),
        f"{row.wall_ratio:.2f}",
        _ratio(timings.get("packed+packing")),
        " / ".join(_ratio(timings.get(name)) for name in buckets),
        _ratio(timings.get("split")),
        layer.best_layout or "",
        _memory(timings.get("packed"), padded),
        conditions.rounds,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _ratio(timing: LayoutTiming | None) -> str:
    if timing is None:
        return "–"
    return f"{timing.ratio_to_padded:.2f}{'?' if timing.verdict == 'unclear' else ''}"


def _memory(packed: LayoutTiming | None, padded: LayoutTiming) -> str:
    if packed is None or packed.peak_bytes is None or not padded.peak_bytes:
        return "–"
    return f"{packed.peak_bytes / padded.peak_bytes:.2f}"


def _case(row: Row) -> str:
    case = row.case
    name = f"{case.kind.upper()} {case.hidden}, B {case.sequences}, {case.lengths}, {case.dtype}"
    return f"{name}, {'forward + backward' if case.backward else 'forward'}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
