"""Counts what a test executes, and makes a missed limit its failure."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, NoReturn

import pytest

from rnncost.errors import RegressionError, UncountedModuleWarning, UnitError
from rnncost.plugin.markers import Limit, limits_of
from rnncost.plugin.records import Work
from rnncost.reporting.report import CostReport

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from rnncost.tracking.tracker import CostTracker

_METER = "rnncost-meter"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """What was found out about one test.

    Attributes:
        report: what its call executed.
        missed: how it missed its limits; empty where it kept them.
        failure: the exception that says so, unless the test failed by itself.
    """

    report: CostReport
    missed: str = ""
    failure: RegressionError | None = None


_MEASURED = pytest.StashKey[Measured | None]()


def measure(item: pytest.Item) -> Generator[None, object, object]:
    """Wraps the call of a test: counts all recurrent work of the process, then holds it to the limits.

    Raises:
        RegressionError: if the test passed otherwise and missed a limit.
    """
    from rnncost.tracking.tracker import CostTracker

    _register_meter(item.config)
    item.stash[_MEASURED] = None  # of an earlier attempt at the same test
    limits = _limits(item)
    tracker = CostTracker(backward=True, infer_lengths=any(limit.infer_lengths for limit in limits))
    tracker.__enter__()
    try:
        result = yield
    except BaseException:
        _leave(tracker)
        item.stash[_MEASURED] = Measured(report=tracker.report, missed=_missed(limits, tracker.report))
        raise
    _leave(tracker)
    item.stash[_MEASURED] = Measured(report=tracker.report)
    missed = _missed(_limits(item), tracker.report)  # read again, since the test may have added a marker
    if missed:
        failure = RegressionError(missed)
        item.stash[_MEASURED] = Measured(report=tracker.report, missed=missed, failure=failure)
        raise failure
    return result


def fail_uncounted() -> NoReturn:
    """Fails a test that came by its first marker while it ran, so that nothing was counted."""
    pytest.fail("rnncost: a limit was added by the test itself, too late to count; add it in a fixture", pytrace=False)


def _limits(item: pytest.Item) -> list[Limit]:
    try:
        return limits_of(item)
    except UnitError as error:  # of a marker that was added after the collection
        pytest.fail(f"rnncost: {error}", pytrace=False)


def _leave(tracker: CostTracker) -> None:
    # Uncounted work is told by the limits and the summary; as an error, the warning would hide them.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncountedModuleWarning)
        tracker.__exit__(None, None, None)


def _missed(limits: list[Limit], report: CostReport) -> str:
    found = (limit.check(report) for limit in limits)
    return "\n".join(f"rnncost: {reason}" for reason in found if reason is not None)


class Meter:
    """Tells the reports of measured tests what was measured."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        measured = item.stash.get(_MEASURED, None)
        if measured is None or call.when != "call":
            return report
        if item.config.pluginmanager.has_plugin("rnncost-run"):
            # Text, since it has to come from a worker of pytest-xdist to its controller.
            report.rnncost = Work.of(measured.report).to_json()  # type: ignore[attr-defined]
        if call.excinfo is not None and call.excinfo.value is measured.failure:
            report.longrepr = _without_traceback(call.excinfo, report)
        elif measured.missed and report.failed and measured.report.layers:
            report.sections.append(("rnncost", measured.missed))
        return report


def _register_meter(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(_METER):
        config.pluginmanager.register(Meter(), _METER)


def _without_traceback(error: pytest.ExceptionInfo[BaseException], report: pytest.TestReport) -> TerminalRepr:
    """The message alone, and as its place the test: no line of the test or of the plugin is at fault."""
    shown = error.getrepr(style="value")
    if shown.reprcrash is not None:
        path, line, _ = report.location
        shown.reprcrash.path, shown.reprcrash.lineno = path, (line or 0) + 1
        shown.reprcrash.message = str(error.value).replace("\n  ", "\n")
    return shown
