"""The pytest plugin: limits on the recurrent work of a test, and baselines of a whole run.

Loaded by every pytest of an environment that has rnncost, so it imports nothing but pytest: the rooms
of rnncost are loaded by the first test that has a marker, or by an option.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from rnncost.tracking import CostTracker

# name, what argparse is told, type of the ini setting of the same name. Both sides share the help.
OPTIONS: tuple[tuple[str, dict[str, Any], Literal["bool", "string"]], ...] = (
    (
        "rnncost",
        {"action": "store_true", "help": "Show the tests that did the most recurrent work: MACs, saved, wasted."},
        "bool",
    ),
    (
        "rnncost_top",
        {"metavar": "N", "help": "Show this many tests, 0 for all (10); as an option it implies --rnncost."},
        "string",
    ),
    (
        "rnncost_json",
        {"metavar": "PATH", "help": "Write the recurrent work of each test to this JSON file."},
        "string",
    ),
    (
        "rnncost_save",
        {"metavar": "NAME", "help": "Save what passing tests executed as the baseline .rnncost/NAME.json."},
        "string",
    ),
    (
        "rnncost_compare",
        {"metavar": "NAME", "help": "Compare with the baseline .rnncost/NAME.json; growth fails the run."},
        "string",
    ),
    (
        "rnncost_compare_fail",
        {"metavar": "METRIC:LIMIT[,...]", "help": "Growth allowed of each test and layer (mults:0%%), or none."},
        "string",
    ),
)
# What `pytest --markers` says. Written out, since the signatures and docstrings that say the same are not loaded yet.
MARKERS = {
    "limit_macs": (
        "limit_macs(limit, *, partial=False): fail the test if its recurrent layers execute more than `limit` MACs "
        '(1200000 or "1.2M"), backward included.'
    ),
    "max_wasted": (
        "max_wasted(limit, *, partial=False, infer_lengths=False): fail the test if more than `limit` "
        '("5%" or 0.05) of the mults executed by recurrent layers are padding.'
    ),
    "min_saved": (
        'min_saved(limit, *, partial=False): fail the test if less than `limit` ("30%" or 0.3) of the mults '
        "of the padded batches are saved."
    ),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rnncost", "operations of recurrent layers")
    for name, options, ini_type in OPTIONS:
        group.addoption(f"--{name.replace('_', '-')}", dest=name, default=None, **options)
        parser.addini(name, options["help"].replace("%%", "%"), type=ini_type, default=None)


def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS.values():
        config.addinivalue_line("markers", line)
    if any(config.getoption(name) or config.getini(name) for name, _, _ in OPTIONS):
        from rnncost.plugin.run import register

        register(config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    marked = [node for node in report.result or () if isinstance(node, pytest.Item) and _is_marked(node)]
    if marked:
        from rnncost.plugin.markers import check_collected

        check_collected(report, marked)
    return report


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    # All that a test costs that has no marker, in a run without options.
    if not _is_marked(item) and not item.config.pluginmanager.has_plugin("rnncost-run"):
        result = yield
        if _is_marked(item):
            from rnncost.plugin.meter import fail_uncounted

            fail_uncounted()
        return result
    from rnncost.plugin.meter import measure

    return (yield from measure(item))


@pytest.fixture
def rnncost_tracker() -> Callable[..., CostTracker]:
    """The class rnncost.CostTracker, which counts recurrent work, for tests that need more than a marker.

    `with rnncost_tracker(model) as tracker: ...`, then rnncost.testing.assert_max_wasted(tracker.report, "5%").
    """
    from rnncost.tracking import CostTracker

    return CostTracker


def _is_marked(item: pytest.Item) -> bool:
    return any(mark.name in MARKERS for mark in item.iter_markers())
