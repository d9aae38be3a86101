"""The markers: a function each, whose parameters are the marker's, and what they hold a test to."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fractions import Fraction

    from rnncost.reporting.report import CostReport


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limit:
    """What a marker holds its test to.

    Attributes:
        missed: says how a report misses the limit; ``None`` where it keeps it.
        partial: whether uncounted work is let pass, so that the limit holds what was counted.
        infer_lengths: whether to read true lengths off trailing all-zero steps.
    """

    missed: Callable[[CostReport], str | None]
    partial: bool = False
    infer_lengths: bool = False

    def check(self, report: CostReport) -> str | None:
        """The failure on one screen, or ``None``."""
        import msgspec

        held = msgspec.structs.replace(report, uncounted=()) if self.partial else report
        reason = self.missed(held)
        return None if reason is None else reason + self._advice(report)

    def _advice(self, report: CostReport) -> str:
        if report.uncounted:
            return "" if self.partial else "\npartial=True in the marker holds what can be counted to the limit."
        if not any(layer.calls for layer in report.layers):
            return "\nOnly the test's own call is counted, not its fixtures."
        if self.infer_lengths or report.packed is not None or "unknown" not in (self.missed(report) or ""):
            return ""
        return "\nPack the batches; or infer_lengths=True in the marker takes trailing all-zero steps for padding."


def limit_macs(limit: int | str, *, partial: bool = False) -> Limit:
    """Fail the test if its recurrent layers execute more than `limit` MACs (1200000 or "1.2M"), backward included."""
    from rnncost.reporting.limits import max_macs_missed
    from rnncost.units import read_count

    return Limit(missed=functools.partial(max_macs_missed, limit=read_count(limit)), partial=_flag(partial))


def max_wasted(limit: Fraction | float | str, *, partial: bool = False, infer_lengths: bool = False) -> Limit:
    """Fail the test if more than `limit` ("5%" or 0.05) of the mults executed by recurrent layers are padding."""
    from rnncost.reporting.limits import max_wasted_missed
    from rnncost.units import read_fraction

    return Limit(
        missed=functools.partial(max_wasted_missed, limit=read_fraction(limit)),
        partial=_flag(partial),
        infer_lengths=_flag(infer_lengths),
    )


def min_saved(limit: Fraction | float | str, *, partial: bool = False) -> Limit:
    """Fail the test if less than `limit` ("30%" or 0.3) of the mults of the padded batches are saved."""
    from rnncost.reporting.limits import min_saved_missed
    from rnncost.units import read_fraction

    return Limit(missed=functools.partial(min_saved_missed, limit=read_fraction(limit)), partial=_flag(partial))


FUNCTIONS: dict[str, Callable[..., Limit]] = {marker.__name__: marker for marker in (limit_macs, max_wasted, min_saved)}


def limits_of(item: pytest.Item) -> list[Limit]:
    """The limits that hold for a test: of each marker the closest one.

    Raises:
        UnitError: if a marker's arguments cannot be; the message begins with the marker.
    """
    marks = (_closest(item, name) for name in FUNCTIONS)
    return [_limit(mark) for mark in marks if mark is not None]


def check_collected(report: pytest.CollectReport, items: Iterable[pytest.Item]) -> None:
    """Makes the report of a collection an error, if tests among those collected have markers that cannot be."""
    from rnncost.errors import UnitError

    errors = []
    for item in items:
        try:
            limits_of(item)
        except UnitError as error:
            errors.append(f"{item.nodeid}: {error}")
    if errors:
        report.outcome = "failed"
        report.longrepr = "\n".join(errors)
        report.result = []


def _closest(item: pytest.Item, name: str) -> pytest.Mark | None:
    """The closest marker: of a parameter, the function, its class before the bases of that, the module."""
    # pytest lists a function's own markers before those of a parameter, and a base's before its subclass's.
    parameters = getattr(getattr(item, "callspec", None), "marks", ())
    of_parameter = _first(parameters, name)
    if of_parameter is not None:
        return of_parameter
    node, mark = next(item.iter_markers_with_node(name), (None, None))
    return (_of_class(node.obj, name) if isinstance(node, pytest.Class) else None) or mark


def _of_class(decorated: type, name: str) -> pytest.Mark | None:
    own = (vars(each).get("pytestmark", []) for each in decorated.__mro__)
    marks = (marks if isinstance(marks, (list, tuple)) else [marks] for marks in own)
    return _first(itertools.chain.from_iterable(marks), name)


def _first(marks: Iterable[pytest.Mark | pytest.MarkDecorator], name: str) -> pytest.Mark | None:
    bare = (mark.mark if isinstance(mark, pytest.MarkDecorator) else mark for mark in marks)
    return next((mark for mark in bare if mark.name == name), None)


def _limit(mark: pytest.Mark) -> Limit:
    from rnncost.errors import UnitError

    try:
        return FUNCTIONS[mark.name](*mark.args, **mark.kwargs)
    except (UnitError, TypeError) as error:  # a TypeError is that of the call: too many arguments, or none
        reason = str(error)
    except Exception as error:  # an argument may be anything, and refuse to be compared or written
        reason = f"{type(error).__name__}: {error}"
    arguments = [*map(_written, mark.args), *(f"{name}={_written(value)}" for name, value in mark.kwargs.items())]
    raise UnitError(f"{mark.name}({', '.join(arguments)}): {reason}")


def _written(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


def _flag(value: Any) -> bool:
    from rnncost.errors import UnitError

    if not isinstance(value, bool):
        raise UnitError(f"{value!r} is neither True nor False")
    return value
