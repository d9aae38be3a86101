"""Which tests there are, whether they were selected to run or not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest


class Selection:
    """Gathers the tests that were collected, before any is deselected; under pytest-xdist from the workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: set[str] = set()
        self._unknown: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Any:
        self._found.update(item.nodeid for item in items)
        return (yield)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # Of the workers of pytest-xdist too, which tell their controller of failures alone.
        if report.failed:
            self._unknown.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["rnncost_found"] = sorted(self._found)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # A worker that crashed has no output.
        self._found.update(getattr(node, "workeroutput", {}).get("rnncost_found", ()))

    def vanished(self, names: Iterable[str]) -> set[str]:
        """The tests among these that are no more: not those that were merely not selected."""
        if getattr(self._config.option, "lf", False):
            return set()  # it leaves tests out before they are found
        files = {_file(name) for name in self._found}
        whole = [path.resolve() for path in map(self._whole, self._config.args) if path is not None]
        missing = {name for name in names if name not in self._found and not self._is_unknown(name)}
        return {name for name in missing if self._is_gone(_file(name), files, whole)}

    def _is_unknown(self, name: str) -> bool:
        """Whether a test may be one of a class or file whose collection failed."""
        return any(name.startswith(f"{each}::") for each in self._unknown)

    def _is_gone(self, file: str, found: set[str], whole: list[Path]) -> bool:
        path = (self._config.rootpath / file).resolve()
        looked_for = any(path.is_relative_to(each) for each in whole)
        return looked_for and (file in found or not path.exists())

    def _whole(self, argument: str) -> Path | None:
        """The file or folder that an argument names; ``None`` where it picks tests of a file."""
        path = self._config.invocation_params.dir / argument
        return None if "::" in argument else path


def _file(name: str) -> str:
    return name.partition("::")[0]
