"""What became of each test of a run, and what it executed."""

from __future__ import annotations

import functools

import pytest

from rnncost.plugin.baseline import Baseline
from rnncost.plugin.records import Work


class Results:
    """Gathers outcomes and work from the reports of tests, of this process or of pytest-xdist's workers."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self._works: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup":  # and forgets an earlier attempt at the same test
            self.outcomes[report.nodeid] = "passed"
            self._works.pop(report.nodeid, None)
        work = getattr(report, "rnncost", None)
        if work is not None:
            self._works[report.nodeid] = work
        if not report.passed or hasattr(report, "wasxfail"):
            self.outcomes[report.nodeid] = _outcome(report)

    @functools.cached_property
    def works(self) -> Baseline:
        """The work of each test that ran, by node id. To be asked for once all have run."""
        return {name: Work.from_json(text) for name, text in sorted(self._works.items())}

    @property
    def passed(self) -> Baseline:
        """The work of each test that passed."""
        return {name: work for name, work in self.works.items() if self.outcomes[name] == "passed"}

    @property
    def not_passed(self) -> set[str]:
        """Tests that failed, were skipped, or were expected to fail: what they executed says nothing."""
        return {name for name, outcome in self.outcomes.items() if outcome != "passed"}


def _outcome(report: pytest.TestReport) -> str:
    if not hasattr(report, "wasxfail"):
        return report.outcome
    return "xfailed" if report.skipped else "xpassed"
