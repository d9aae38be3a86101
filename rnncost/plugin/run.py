"""A run with options: what each test executed is saved, compared and shown at its end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from rnncost.errors import ReportFormatError
from rnncost.plugin.baseline import Baseline, load_baseline, save_baseline, save_run
from rnncost.plugin.comparing import compare_run, limits_as_text
from rnncost.plugin.results import Results
from rnncost.plugin.selection import Selection
from rnncost.plugin.settings import Settings
from rnncost.plugin.summary import RED, YELLOW, Line, comparison_lines, missing_line, saved_lines, summary_lines

_PLUGIN = "rnncost-run"
_COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


def register(config: pytest.Config) -> None:
    """Joins a run that has options; under pytest-xdist its workers too, which only measure.

    Raises:
        pytest.UsageError: if an option cannot be.
    """
    selection = Selection(config)
    config.pluginmanager.register(selection, "rnncost-selection")
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker(), _PLUGIN)
        return
    results = Results(grouped=getattr(config.option, "dist", None) == "loadgroup")
    config.pluginmanager.register(results, "rnncost-results")
    config.pluginmanager.register(Run(Settings.of(config), selection, results), _PLUGIN)


class Worker:
    """Marks a worker of a run with options. Its controller does the rest."""


class Run:
    """Ends the run with what was asked for."""

    def __init__(self, settings: Settings, selection: Selection, results: Results) -> None:
        self._settings = settings
        self._selection = selection
        self._results = results
        self._lines: list[Line] = []
        self._interrupted = False

    def pytest_keyboard_interrupt(self) -> None:
        # Of pytest.exit too, whose returncode may be that of a run that went to its end.
        self._interrupted = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            return
        # -x sets shouldfail; the controller of pytest-xdist and --sw interrupt the session for the same.
        complete = session.exitstatus in _COMPLETE and not session.shouldfail and not self._interrupted
        kept = self._write_json()
        kept = self._compare(saving=complete and self._settings.save == self._settings.compare) and kept
        kept = self._save(complete=complete) and kept
        if not kept and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if terminalreporter.config.option.collectonly:
            return
        if self._settings.summary:
            width = terminalreporter.config.get_terminal_writer().fullwidth
            terminalreporter.write_sep("=", "rnncost: recurrent work")
            for line in summary_lines(self._results.works, top=self._settings.top, width=width):
                terminalreporter.write_line(line)
        if self._lines:
            terminalreporter.write_sep("=", "rnncost: baseline")
            for text, style in self._lines:
                terminalreporter.write_line(text, **style)

    def _write_json(self) -> bool:
        """Writes the work of each test; whether all went well."""
        path = self._settings.json
        return path is None or self._written(
            path, functools.partial(save_run, path, self._results.works, self._results.outcomes)
        )

    def _compare(self, *, saving: bool) -> bool:
        """Compares with the baseline; whether nothing grew."""
        settings, results = self._settings, self._results
        if settings.compare is None:
            return True
        if settings.baseline is None:
            self._lines.append(missing_line(settings.compare.stem, self._shown(settings.compare)))
            return True
        comparison = compare_run(
            settings.baseline,
            results.passed,
            not_passed=results.not_passed,
            vanished=self._selection.vanished(settings.baseline),
            thresholds=settings.thresholds,
        )
        self._lines += comparison_lines(
            comparison,
            name=settings.compare.stem,
            path=self._shown(settings.compare),
            limits=limits_as_text(settings.thresholds),
            saving=saving,
        )
        return not comparison.regressions

    def _save(self, *, complete: bool) -> bool:
        """Saves what passing tests executed; tests that did not run keep what they had. Whether all went well."""
        path = self._settings.save
        if path is None:
            return True
        if not complete:
            self._lines.append((f"WARNING: the run broke off, so {self._shown(path)} was left as it was.", YELLOW))
            return True
        old: Baseline = {}
        try:
            old = load_baseline(path)
        except FileNotFoundError:
            pass
        except ReportFormatError as error:
            self._lines.append((f"WARNING: replaced by the tests of this run alone: {error}", YELLOW))
        except OSError as error:
            return self._failed(path, error)
        gone = self._selection.vanished(old)
        tests = {name: work for name, work in old.items() if name not in gone} | self._results.passed
        tests = {name: work for name, work in tests.items() if work}
        written = not tests or self._written(path, functools.partial(save_baseline, path, tests))
        if written:
            self._lines += saved_lines(old, tests, self._results, path=self._shown(path))
        return written

    def _written(self, path: Path, write: Callable[[], None]) -> bool:
        try:
            write()
        except OSError as error:
            return self._failed(path, error)
        return True

    def _failed(self, path: Path, error: OSError) -> bool:
        self._lines.append((f"ERROR: {self._shown(path)} was not written: {error}", RED))
        return False

    def _shown(self, path: Path) -> str:
        here = self._settings.here
        return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
