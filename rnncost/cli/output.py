"""Where a report goes: standard output in one format, and any number of files by suffix."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from rnncost.errors import ReportFormatError
from rnncost.reporting.renderers import CHART_SUFFIXES, FORMATS, renderer_for_format, renderer_for_path
from rnncost.reporting.renderers.charts import CHARTS
from rnncost.reporting.renderers.glyphs import fit_encoding
from rnncost.reporting.report import CostReport

Command = TypeVar("Command", bound=Callable[..., Any])


def output_options(function: Command) -> Command:
    """Adds ``-o``, ``--chart`` and ``--format``, whose values :func:`write_report` takes."""
    function = click.option(
        "--format",
        "format_name",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="Format of the report on standard output.",
    )(function)
    function = click.option(
        "--chart",
        metavar="NAME",
        is_eager=True,
        help="The chart of a picture (-o FILE.svg or FILE.png), such as occupancy.",
    )(function)
    return click.option(
        "-o",
        "--output",
        "paths",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        multiple=True,
        callback=_check_paths,
        help="Also write the report to this file, in the format of its suffix; may be repeated.",
    )(function)


def write_report(report: CostReport, *, paths: tuple[Path, ...], format_name: str, chart: str | None = None) -> None:
    """Writes the files first, so that a closed pipe cannot lose them, then prints the report.

    Raises:
        ReportFormatError: after printing, if a file cannot be written.
    """
    write(
        paths=paths,
        save=lambda path: report.save(path, chart=chart),
        format_name=format_name,
        show=report.print,
        render=lambda name: renderer_for_format(name).render(report),
    )


def write(
    *,
    paths: tuple[Path, ...],
    save: Callable[[Path], None],
    format_name: str,
    show: Callable[[], None],
    render: Callable[[str], str],
) -> None:
    """Writes the files first, so that a closed pipe cannot lose them, then prints.

    Args:
        paths: the files.
        save: writes one.
        format_name: of what is printed.
        show: prints as text.
        render: the content of a file in the format of this name.

    Raises:
        ReportFormatError: after printing, if a file cannot be written.
    """
    failed = save_files(paths, save)
    with standard_output():
        if format_name == "text":
            show()
        else:
            print_file(render(format_name))
    if failed:
        raise ReportFormatError(failed)


@contextlib.contextmanager
def standard_output() -> Iterator[None]:
    """Says in a line that standard output cannot be written, as on a full disk; a closed pipe is left to click.

    Raises:
        ReportFormatError: with the reason.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in its buffer would fail once more when Python ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ReportFormatError(f"standard output: cannot be written: {error.strerror or error}") from None


def print_file(text: str) -> None:
    """Prints what a file would hold: in UTF-8 whatever the locale says, but on a terminal what it can show."""
    stream = sys.stdout
    if stream is None:  # closed, as by >&-
        return
    buffer = getattr(stream, "buffer", None)
    if buffer is None or stream.isatty():
        stream.write(fit_encoding(text, getattr(stream, "encoding", None) or "utf-8"))
        return
    stream.flush()
    buffer.write(text.encode("utf-8"))


def save_files(paths: tuple[Path, ...], save: Callable[[Path], None]) -> str:
    """Saves each file, names it on standard error, and says which of them could not be written."""
    failed = []
    for path in paths:
        try:
            save(path)
        except OSError as error:
            failed.append(f"{path}: cannot be written: {error.strerror or error}")
        except ReportFormatError as error:  # a chart that the report cannot fill
            failed.append(f"{path}: {error}")
        else:
            click.echo(f"wrote {path}", err=True)
    return "; ".join(failed)


def check_paths(paths: tuple[Path, ...], renderer_for: Callable[[Path], object]) -> tuple[Path, ...]:
    """Returns the paths, each of which has a folder and a renderer.

    Raises:
        click.BadParameter: naming the file that has not.
    """
    # Before the model runs: a long run must not end in an error that was known at its start.
    for path in paths:
        try:
            renderer_for(path)
        except ReportFormatError as error:
            raise click.BadParameter(str(error)) from None
        if not path.absolute().parent.is_dir():
            raise click.BadParameter(f"{path}: there is no folder {path.parent}")
    return paths


def _check_paths(ctx: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    chart = ctx.params.get("chart")
    pictures = [path for path in paths if path.suffix.lower() in CHART_SUFFIXES]
    if chart is not None and not pictures:
        names = "" if chart in CHARTS else f"; nor is there a chart {chart!r} among {', '.join(CHARTS)}"
        raise click.BadParameter(f"--chart belongs to a picture; give -o FILE.svg or FILE.png with it{names}")
    return check_paths(paths, lambda path: renderer_for_path(path, chart=chart))
