"""Proves on a machine with a GPU what can only be proved there, and times the layouts of cuDNN.

Run it with ``python -m tests.gpu.run [--device cuda] [--budget SECONDS] [--output DIR]``. It checks that
the device's clock agrees with a wall clock, that counts equal the CPU's, and that exact layouts are exact
there; then it times layouts until the budget is spent. It writes ``gpu.json`` with every figure and ``gpu.md``
to read. The exit status is 0 when every check passed, 1 when one failed, 2 when there is no such device.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from rnncost.counting.spec import RnnSpec
from rnncost.errors import DeviceError
from rnncost.timing.clock import check_device
from tests.gpu import clocks, counts, output
from tests.gpu.check import Check, guarded, passed_if
from tests.gpu.table import Case, Row, all_cases, run_cases

REPORTS = Path(__file__).parents[2] / "reports"


class Sizes(NamedTuple):
    """How much is run: less for a test on a CPU.

    Attributes:
        clock_work_s: seconds of each work that clocks are compared on.
        hidden: width of the layer that it trains.
        specs: layers that are counted; by default those of :func:`all_specs`.
        cases: of the table; by default those of :func:`all_cases`.
        table_s: seconds for the table; by default what the checks leave of the budget.
    """

    clock_work_s: float = 0.4
    hidden: int = 512
    specs: tuple[RnnSpec, ...] | None = None
    cases: tuple[Case, ...] | None = None
    table_s: float | None = None


def main(arguments: Sequence[str] | None = None, *, sizes: Sizes | None = None) -> int:
    """Runs everything and writes the files. The exit status is returned."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.run", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", type=float, default=420.0, help="seconds for everything, about")
    parser.add_argument("--output", type=Path, default=REPORTS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    deadline = time.monotonic() + options.budget
    try:
        check_device(options.device)
    except DeviceError as error:
        print(f"{error}. This script needs it; --device cpu tries the script itself.", file=sys.stderr)
        return 2
    device = torch.device(options.device)
    # Other devices than CUDA have no float16 recurrent kernels that are worth a table.
    dtypes = ("float32", "float16") if device.type == "cuda" else ("float32",)
    sizes = sizes or Sizes()
    with warnings.catch_warnings(record=True) as caught:
        # Once from each place: some say why a kernel is slow.
        warnings.simplefilter("default")
        checks = _checks(device, dtypes, sizes)
        cases = all_cases(dtypes) if sizes.cases is None else sizes.cases
        if sizes.table_s is not None:
            deadline = time.monotonic() + sizes.table_s
        rows = run_cases(cases, device=device, deadline=deadline, tell=_tell)
    checks.append(_errors(rows))
    name, libraries, settings = output.conditions_of(device)
    command = " ".join(["python -m tests.gpu.run", *given])
    found = output.Found(
        command=command,
        device=name,
        libraries=libraries,
        settings=settings,
        checks=tuple(checks),
        rows=tuple(rows),
        warnings=tuple(dict.fromkeys(map(_warning, caught))),
    )
    for path in output.write(found, options.output):
        print(path)
    return 1 if found.failed else 0


def _checks(device: torch.device, dtypes: Sequence[str], sizes: Sizes) -> list[Check]:
    specs = counts.all_specs() if sizes.specs is None else sizes.specs
    exact = [torch.float64, *(getattr(torch, dtype) for dtype in dtypes)]
    checks = [
        guarded("clock", lambda: clocks.clock_check(device, work_s=sizes.clock_work_s, hidden=sizes.hidden)),
        guarded("counts", lambda: counts.counts_check(device, specs)),
        *(
            guarded(counts.exactness(dtype), functools.partial(counts.exactness_check, device, dtype, specs))
            for dtype in exact
        ),
        guarded(clocks.TRACKER, lambda: clocks.tracker_check(device, hidden=sizes.hidden)),
    ]
    for check in checks:
        _tell(f"{check.outcome}: {check.name}: {check.text}")
    return checks


def _errors(rows: Sequence[Row]) -> Check:
    """A case that raises is a failed check: none of them asks for more than the library offers."""
    failed = [row for row in rows if row.error]
    timed = sum(row.layer is not None for row in rows)
    text = f"{timed} of {len(rows)} cases timed, {len(failed)} raised, {len(rows) - timed - len(failed)} not reached"
    return Check(name="cases", outcome=passed_if(not failed and timed > 0), text=text)


def _warning(caught: warnings.WarningMessage) -> str:
    """What was warned about, without the place in torch's own source."""
    return f"{caught.category.__name__}: {str(caught.message).split(' (Triggered internally')[0]}"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
