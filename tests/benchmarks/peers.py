"""Other counters of MACs and flops on the same recurrent models, beside what torch dispatches.

Run it with ``python -m tests.benchmarks.peers`` on Linux or macOS (it forks); it writes ``reports/peers.md``
and ``reports/peers.csv``. The counters and the models are in ``tests/benchmarks/peer_cases.py``.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import tempfile
import venv
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.peer_cases import CASES, TIMEOUT_SECONDS, TOOLS, TRUTH, Tool

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "reports" / "peers.md"
# Both are imported as `thop`, so each has a folder of its own. torch is their only dependency.
TWINS = {"thop": "0.1.1.post2209072238", "ultralytics-thop": "2.2.3"}
LIBRARIES = {
    "ptflops": "0.7.5",
    "torchinfo": "1.8.0",
    "calflops": "0.3.2",
    "transformers": "5.24.0",  # calflops imports it without asking for it
    "torchprofile": "0.1.0",
    "fvcore": "0.1.5.post20221221",
}
# thop imports distutils, which Python 3.12 and later have from setuptools alone.
_BESIDES = ("setuptools", "numpy")


class Row(NamedTuple):
    """A tool on a case; the columns of the CSV."""

    tool: str
    version: str
    case: str
    truth_macs: int
    reported: float | None
    unit: str
    verdict: str
    ratio: float | None
    seconds: float | None
    error: str


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        python = _install(Path(folder))
        with ThreadPoolExecutor(2) as pool:
            outcomes = dict(zip(TOOLS, pool.map(lambda tool: _run(python, tool), TOOLS), strict=True))
    truth = {outcome["case"]: round(outcome["reported"]) // 2 for outcome in outcomes[TRUTH]}
    rows = [_row(name, outcome, truth) for name in TOOLS if name != TRUTH for outcome in outcomes[name]]
    with OUTPUT.with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([Row._fields, *rows])
    OUTPUT.write_text(_render(rows, truth, outcomes[TRUTH][0]))
    print(OUTPUT.read_text())


def _install(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    _pip(python, "-e", ".", *_BESIDES, *(f"{name}=={version}" for name, version in LIBRARIES.items()))
    for name, version in TWINS.items():
        _pip(python, "--no-deps", "--target", str(folder / "twins" / name), f"{name}=={version}")
    return python


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "-c", "constraints.txt", *arguments]
    subprocess.run(command, cwd=ROOT, check=True)


def _run(python: Path, name: str) -> list[dict[str, Any]]:
    """What a tool said of each case. It may also write what it likes to the error stream."""
    twin = python.parents[1] / "twins" / name
    environment = {**os.environ, "PYTHONPATH": str(twin) if twin.exists() else ""}
    command = [str(python), "-m", "tests.benchmarks.peer_cases", name]
    limit = 2 * TIMEOUT_SECONDS * len(CASES)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _row(name: str, outcome: Mapping[str, Any], truth: Mapping[str, int]) -> Row:
    tool, case, reported = TOOLS[name], outcome["case"], outcome["reported"]
    ratio = None if reported is None else reported / (tool.per_mac * truth[case])
    return Row(
        tool=name,
        version=outcome["version"],
        case=case,
        truth_macs=truth[case],
        reported=int(reported) if reported is not None and reported == int(reported) else reported,
        unit=_unit(tool),
        verdict=_verdict(reported, tool.per_mac * truth[case]),
        ratio=None if ratio is None else round(ratio, 4),
        seconds=None if outcome["seconds"] is None else round(outcome["seconds"], 4),
        error=outcome["error"],
    )


def _unit(tool: Tool) -> str:
    return "1 per MAC" if tool.per_mac == 1 else f"{tool.per_mac} per MAC"


def _verdict(reported: float | None, expected: int) -> str:
    if reported is None:
        return "crash"
    if reported == expected:
        return "right"
    return "wrong" if reported else "0"


def _render(rows: Sequence[Row], truth: Mapping[str, int], versions: Mapping[str, Any]) -> str:
    share = truth["LSTM packed"] / truth["LSTM padded"]
    named = {name: [row for row in rows if row.tool == name] for name in TOOLS if name != TRUTH}
    return "\n".join(
        [
            _HEADER.format(**versions, share=share, timeout=TIMEOUT_SECONDS),
            _line(["tool", *CASES]),
            _line(["---"] * (len(CASES) + 1)),
            *(_line([name, *map(_cell, found)]) for name, found in named.items()),
            _line(["*truth, MACs*", *(f"{macs:,}" for macs in truth.values())]),
            _TOOLS.format(share=share),
            *(_tool_line(name, found) for name, found in named.items()),
            "",
        ]
    )


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _cell(row: Row) -> str:
    if row.verdict == "wrong":
        return f"×{row.ratio:.2f}" if row.ratio and row.ratio < 10 else f"×{row.ratio:.1f}"
    return f"**{row.verdict}**" if row.verdict == "right" else row.verdict


def _tool_line(name: str, rows: Sequence[Row]) -> str:
    reported = {row.case: row.reported for row in rows}
    packed, padded = reported["LSTM packed"], reported["LSTM padded"]
    seen = f"{packed / padded:.4f}" if packed and padded else "–"
    right = sum(row.verdict == "right" for row in rows)
    # A crash takes no time worth knowing.
    seconds = [row.seconds for row in rows if row.seconds is not None and row.verdict != "crash"]
    median = f"{statistics.median(seconds):.3f}" if seconds else "–"
    return _line([name, rows[0].version, TOOLS[name].counts, f"{right} of {len(rows)}", seen, median])


_HEADER = """# Other counters on the same models

Written by `python -m tests.benchmarks.peers`, which installs the counters from the package index into a new
environment and runs each on each case in a process of its own: torch {torch}, Python {python}, one thread,
two processes at a time, {timeout:.0f} s at most.

The truth is torch's own `FlopCounterMode` with oneDNN off, on the same module and batch: the matrix products that the
native kernels dispatch, at two flops a MAC. "right" is equal to it without tolerance, in the unit that the tool
states; ×1.10 is that many times the truth; 0 is a count of nothing, said without an error; "crash" is an exception,
whose first line is in `peers.csv`. Tools that count biases and the arithmetic of gates as MACs cannot be "right" here:
with them a few percent above the truth is a matter of definition (see "what it counts"), a factor is not. The rows of
`FlopCounterMode`, and of the whole model where a `PackedSequence` is given, are counts of the tool that the truth comes
from, with oneDNN left on; fvcore's and `CostTracker`'s are independent of it.

Eight sequences of 3 to 40 steps, {share:.2%} of the rectangle; 16 features, 24 units, 10 where projected; "2 bi" is
two bidirectional layers. Packed cases hand a `PackedSequence` to the module, in whichever way the tool lets it
through. "packs inside" takes padded data, packs and unpacks it in its forward, and has a linear layer after it.
`CostTracker` counts recurrent layers alone, so there it leaves out the linear layer; `measure_whole_model` does not.
"""

_TOOLS = """
"packed : padded" is what the tool says of the packed LSTM as a share of what it says of the padded one; {share:.4f}
is true, 1 means that it does not see packing. Seconds are those of the counting call alone, the median over the cases
that gave a figure, each measured once: read their order of magnitude. What torch loads when a dispatch mode is
first used (about a second) is in them.

| tool | version | what it counts | right | packed : padded | seconds |
|---|---|---|---|---|---|"""

if __name__ == "__main__":
    main()
