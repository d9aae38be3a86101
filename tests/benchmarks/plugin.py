"""What the pytest plugin costs where nobody uses it: start-up, and each test.

Run it with ``python -m tests.benchmarks.plugin``; it writes ``reports/plugin.md``.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.benchmarks.interleave import interleaved

OUTPUT = Path(__file__).parents[2] / "reports" / "plugin.md"
ROUNDS = 100
TESTS = 2000
# Other plugins of the environment would add to both sides, and to their scatter.
WITH, WITHOUT = ("-p", "rnncost.pytest_plugin"), ()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        empty, full = Path(folder, "empty"), Path(folder, "full")
        for path in (empty, full):
            path.mkdir()
        body = "".join(f"def test_{number}(): pass\n" for number in range(TESTS))
        (full / "test_full.py").write_text(body)
        lines = [
            _line("start-up on an empty folder (`--collect-only`), ms", _runs(empty, "--collect-only"), scale=1e3),
            _line(f"{TESTS:,} empty tests, µs a test", _runs(full), scale=1e6 / TESTS, rounds=ROUNDS // 4),
        ]
    OUTPUT.write_text(
        "\n".join(
            [
                _HEADER.format(pytest=pytest.__version__, python=platform.python_version(), machine=platform.machine()),
                *lines,
                "",
            ]
        )
    )
    print(OUTPUT.read_text())


def _runs(folder: Path, *options: str) -> Mapping[str, Callable[[], object]]:
    def run(plugin: tuple[str, ...]) -> Callable[[], object]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *options]
        environment = {
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            # Compiled once, in the first round, as on any machine; and nothing of it is left here.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(folder.parent / "compiled"),
        }
        return lambda: subprocess.run(command, cwd=folder, env=environment, capture_output=True)

    return {"with": run(WITH), "without": run(WITHOUT)}


def _line(title: str, runs: Mapping[str, Callable[[], object]], *, scale: float, rounds: int = ROUNDS) -> str:
    seconds = interleaved(runs, rounds=rounds, repeat=1)
    added = [(one - other) * scale for one, other in zip(seconds["with"], seconds["without"], strict=True)]
    low, middle, high = statistics.quantiles(added, n=4)
    plain, loaded = (statistics.median(seconds[name]) * scale for name in ("without", "with"))
    return f"| {title} | {plain:.1f} | {loaded:.1f} | {middle:.2f} ({low:.2f} to {high:.2f}) |"


_HEADER = """# What the pytest plugin costs where it is not used

Written by `python -m tests.benchmarks.plugin`: one run, pytest {pytest}, Python {python}, {machine}. Processes of
`python -m pytest` with and without the plugin, all other plugins left out, take turns in shuffled order; "added" is the
median of the differences within a round (with the quartiles). Aim: start-up adds less than 5 ms.

| what | without | with | added |
| --- | --- | --- | --- |"""

if __name__ == "__main__":
    main()
