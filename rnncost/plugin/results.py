"""What became of each test of a run, and what it executed."""

from __future__ import annotations

import functools

import pytest

from rnncost.plugin.baseline import Baseline
from rnncost.plugin.records import Work

_FINAL = ("passed", "failed", "skipped", "xfailed", "xpassed")


class Results:
    """Gathers outcomes and work from the reports of tests, of this process or of pytest-xdist's workers.

    Args:
        grouped: whether pytest-xdist may add a test's group to its name, as ``--dist loadgroup`` does.
    """

    def __init__(self, *, grouped: bool = False) -> None:
        self._grouped = grouped
        self.outcomes: dict[str, str] = {}
        self._works: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = without_group(report.nodeid) if self._grouped else report.nodeid
        if self.outcomes.get(name, "passed") not in _FINAL:  # of an attempt that another plugin repeats: forgotten
            del self.outcomes[name]
            self._works.pop(name, None)
        self.outcomes.setdefault(name, "passed")
        work = getattr(report, "rnncost", None)
        if work is not None:
            self._works[name] = work
        if _counts(report):
            self.outcomes[name] = _outcome(report)

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


def without_group(name: str) -> str:
    """The node id of a test without the group that ``--dist loadgroup`` adds, as in ``test_it.py::test_a[x]@group``."""
    head, _, tail = name.rpartition("@")
    return name if not head or "]" in tail or "::" in tail else head


def _counts(report: pytest.TestReport) -> bool:
    """Whether a report says more of its test than that it goes on well."""
    if hasattr(report, "context"):  # of a subtest: its test passes unless it fails
        return report.failed
    return not report.passed or hasattr(report, "wasxfail")


def _outcome(report: pytest.TestReport) -> str:
    if not hasattr(report, "wasxfail"):
        return report.outcome
    return "xfailed" if report.skipped else "xpassed"
