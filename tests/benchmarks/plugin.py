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
        own = sorted(_own_seconds(empty) * 1e3 for _ in range(ROUNDS))
        lines = [
            _line("start-up on an empty folder (`--collect-only`), ms", _runs(empty, "--collect-only"), scale=1e3),
            _line(f"{TESTS:,} empty tests, µs a test", _runs(full), scale=1e6 / TESTS, rounds=ROUNDS // 4),
        ]
    head = _HEADER.format(
        pytest=pytest.__version__,
        python=platform.python_version(),
        machine=platform.machine(),
        rounds=ROUNDS,
        median=statistics.median(own),
        low=own[ROUNDS // 20],
        high=own[-1 - ROUNDS // 20],
    )
    OUTPUT.write_text("\n".join([head, *lines, ""]))
    print(OUTPUT.read_text())


def _own_seconds(folder: Path) -> float:
    """What the plugin's own code takes of one start of pytest."""
    command = [sys.executable, "-c", _TIMED, str(folder)]
    done = subprocess.run(command, env=_environment(folder), capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def _runs(folder: Path, *options: str) -> Mapping[str, Callable[[], object]]:
    def run(plugin: tuple[str, ...]) -> Callable[[], object]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *options]
        return lambda: subprocess.run(command, cwd=folder, env=_environment(folder), capture_output=True)

    return {"with": run(WITH), "without": run(WITHOUT)}


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        # Compiled once, in the first round, as on any machine; and nothing of it is left here.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder.parent / "compiled"),
    }


def _line(title: str, runs: Mapping[str, Callable[[], object]], *, scale: float, rounds: int = ROUNDS) -> str:
    seconds = interleaved(runs, rounds=rounds, repeat=1)
    without, loaded = (min(seconds[name]) * scale for name in ("without", "with"))
    return f"| {title} | {without:.1f} | {loaded:.1f} | {loaded - without:.1f} |"


# Times what of a start belongs to the plugin: its import, its registration, its options and its configuration.
_TIMED = """
import functools, sys, time
import pytest
from _pytest.config import PytestPluginManager

spent = 0.0

def timed(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        global spent
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent += time.perf_counter() - start
    return call

@timed
def load():
    import rnncost.pytest_plugin
    return rnncost.pytest_plugin

plugin = load()
plugin.pytest_addoption = timed(plugin.pytest_addoption)
plugin.pytest_configure = timed(plugin.pytest_configure)
register = PytestPluginManager.register

def registering(self, each, name=None):
    return (timed(register) if each is plugin else register)(self, each, name)

PytestPluginManager.register = registering
pytest.main(["-q", "-p", "no:cacheprovider", "-p", "rnncost.pytest_plugin", "--collect-only", sys.argv[1]])
print()
print(spent)
"""
_HEADER = """# What the pytest plugin costs where it is not used

Written by `python -m tests.benchmarks.plugin`: one run, pytest {pytest}, Python {python}, {machine}. Aim: start-up adds
less than 5 ms.

Of one start of pytest the plugin's own code (its import, registration, options, configuration) takes
**{median:.2f} ms**: the median of {rounds} processes, of which nine in ten took {low:.2f} to {high:.2f} ms.

Whole processes of `python -m pytest` with and without the plugin, all other plugins left out, take turns in shuffled
order. A start varies by tens of milliseconds, so this is the fastest of {rounds} (a quarter of that for the
tests), in which a difference of some microseconds is noise.

| fastest | without | with | added |
| --- | --- | --- | --- |"""

if __name__ == "__main__":
    main()
