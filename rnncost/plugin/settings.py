"""What a run was asked for, on the command line or in the ini file, checked before any test is collected."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from rnncost.errors import ReportFormatError, UnitError
from rnncost.plugin.baseline import Baseline, load_baseline
from rnncost.reporting.thresholds import Threshold, parse_thresholds

FOLDER = ".rnncost"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_TOP = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of one run.

    Attributes:
        here: where pytest was called.
        summary: whether the tests with the most work are shown.
        top: how many of them; 0 for all.
        json: file to write the work of each test to.
        save: baseline to save.
        compare: baseline to compare with.
        baseline: its content; ``None`` if there is no such file.
        thresholds: growth that the comparison allows.
    """

    here: Path
    summary: bool
    top: int
    json: Path | None
    save: Path | None
    compare: Path | None
    baseline: Baseline | None
    thresholds: tuple[Threshold, ...]

    @classmethod
    def of(cls, config: pytest.Config) -> Settings:
        """Reads and checks the options; the command line wins, and an empty value there undoes an ini setting.

        Raises:
            pytest.UsageError: naming the option and the value that cannot be.
        """
        if config.getoption("rnncost_compare_fail") and not _text(config, "rnncost_compare"):
            raise pytest.UsageError("--rnncost-compare-fail needs a baseline: --rnncost-compare NAME")
        compare = _baseline_path(config, "rnncost_compare")
        thresholds = _thresholds(_text(config, "rnncost_compare_fail"))
        return cls(
            here=config.invocation_params.dir,
            summary=bool(config.getoption("rnncost") or config.getini("rnncost") or config.getoption("rnncost_top")),
            top=_top(_text(config, "rnncost_top")),
            json=_json_path(config),
            save=_baseline_path(config, "rnncost_save"),
            compare=compare,
            baseline=None if compare is None else _load(compare),
            thresholds=thresholds,
        )


def _text(config: pytest.Config, name: str) -> str:
    given = config.getoption(name)
    return str(config.getini(name) or "" if given is None else given).strip()


def _top(text: str) -> int:
    if text and not re.fullmatch(r"[0-9]{1,9}", text):
        raise pytest.UsageError(f"--rnncost-top: {text!r} is not a number of tests; give one such as 10, or 0 for all")
    return int(text) if text else _TOP


def _thresholds(text: str) -> tuple[Threshold, ...]:
    try:
        return parse_thresholds(text or "mults:0%")
    except UnitError as error:
        raise pytest.UsageError(f"--rnncost-compare-fail: {error}") from None


def _json_path(config: pytest.Config) -> Path | None:
    given = config.getoption("rnncost_json")
    folder = config.rootpath if given is None else config.invocation_params.dir
    text = _text(config, "rnncost_json")
    if text and not (folder / text).parent.is_dir():
        raise pytest.UsageError(f"--rnncost-json: there is no folder {(folder / text).parent}")
    return folder / text if text else None


def _baseline_path(config: pytest.Config, name: str) -> Path | None:
    text = _text(config, name)
    if text and (not _NAME.fullmatch(text) or text.endswith(".json")):
        raise pytest.UsageError(
            f"--{name.replace('_', '-')}: {text!r} is not the name of a baseline; give one such as main, of letters, "
            f"digits and . _ + -, for the file {FOLDER}/main.json"
        )
    return config.rootpath / FOLDER / f"{text}.json" if text else None


def _load(path: Path) -> Baseline | None:
    try:
        return load_baseline(path) if path.exists() else None
    except (ReportFormatError, OSError) as error:
        raise pytest.UsageError(f"--rnncost-compare: {error}") from None
