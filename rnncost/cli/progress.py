"""Progress bars, on a terminal only, on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rnncost.units import printable

_REDRAWN_AFTER_S = 0.25


def counted(batches: Iterable[Any]) -> Iterable[Any]:
    """Shows how many batches have passed."""
    if not sys.stderr.isatty():
        return batches
    from rich.console import Console
    from rich.progress import track

    return track(batches, description="batches", console=Console(stderr=True), transient=True)


@contextlib.contextmanager
def time_bar() -> Iterator[Callable[[str, float], None] | None]:
    """A bar for what is timed; ``None`` where there is no terminal.

    It is drawn only when told of progress, between timed calls: a thread that draws by itself
    would take its time from them.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("timing {task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=1.0)
        drawn = float("-inf")

        def progress(name: str, done: float) -> None:
            nonlocal drawn
            now = time.monotonic()
            if now - drawn >= _REDRAWN_AFTER_S:
                drawn = now
                bar.update(task, description=printable(name), completed=done, refresh=True)

        yield progress
