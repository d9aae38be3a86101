"""``rnncost report``: runs a model on its batches and says what its recurrent layers cost."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from rnncost.cli.output import output_options, write_report
from rnncost.errors import ModelLoadError, RegressionError, RnncostWarning, UnitError
from rnncost.reporting import limits
from rnncost.reporting.report import CostReport
from rnncost.units import parse_count, parse_fraction


def _parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Turns a parser of :mod:`rnncost.units` into an option's callback."""

    def callback(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse(value)
        except UnitError as error:
            raise click.BadParameter(str(error)) from None

    return callback


_percent = _parsed(parse_fraction)


@click.command("report")
@click.argument("target", metavar="MODEL.PY[:NAME]")
@output_options
@click.option(
    "--max-wasted", metavar="PCT", callback=_percent, help="Exit 1 if more of the executed mults was padding, e.g. 5%."
)
@click.option(
    "--min-saved", metavar="PCT", callback=_percent, help="Exit 1 if less of the padded mults was saved, e.g. 30%."
)
@click.option(
    "--max-macs", metavar="N", callback=_parsed(parse_count), help="Exit 1 if more MACs were executed, e.g. 1.2M."
)
@click.option("--backward", is_flag=True, help="Run and count the backward of the outputs' sum too.")
@click.option("--check", is_flag=True, help="Also compare padded with packed results, layer by layer.")
@click.option("--no-verify", is_flag=True, help="Do not compare the counts with the kernels of the first batch.")
def command(
    target: str,
    backward: bool,
    check: bool,
    no_verify: bool,
    paths: tuple[Path, ...],
    format_name: str,
    max_wasted: Fraction | None,
    min_saved: Fraction | None,
    max_macs: int | None,
) -> None:
    """Run the model of MODEL.PY on its batches and report what its recurrent layers cost.

    MODEL.PY names an object, or defines one of: build() returning (model, batches); model and
    batches; exactly one torch.nn.Module. A batch is a tensor, a PackedSequence, a tuple of
    positional arguments or a dict of keyword arguments.
    """
    # What the user's code prints must not mix with the report.
    with contextlib.redirect_stdout(sys.stderr), _warnings_as_lines():
        report = _run(target, backward=backward, check=check, verify=not no_verify)
    write_report(report, paths=paths, format_name=format_name)
    missed = [
        None if max_wasted is None else limits.max_wasted_missed(report, max_wasted),
        None if min_saved is None else limits.min_saved_missed(report, min_saved),
        None if max_macs is None else limits.max_macs_missed(report, max_macs),
    ]
    if any(missed):
        raise RegressionError("\n".join(message for message in missed if message))


def _run(target: str, *, backward: bool, check: bool, verify: bool) -> CostReport:
    from rnncost.cli.loading import load_target
    from rnncost.tracking.run import check_layers, run_batches

    arguments = sys.argv
    sys.argv = [target.partition(".py:")[0]]  # a file that parses arguments is not given rnncost's
    try:
        loaded = load_target(target)
        report = run_batches(loaded.model, _with_progress(loaded.batches), backward=backward, verify=verify)
        return check_layers(loaded.model, report) if check else report
    except SystemExit as stop:
        raise ModelLoadError(
            f"{target}: the file ended the process with status {stop.code!r} before it was run"
        ) from stop
    finally:
        sys.argv = arguments


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Shows rnncost's warnings as a line each, without a place in the command line's own code."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, RnncostWarning):
            click.echo(f"rnncost: warning: {message}", err=True)
        else:
            before(message, category, *place, **more)

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def _with_progress(batches: Iterable[Any]) -> Iterable[Any]:
    """Shows a progress bar on a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        return batches
    from rich.console import Console
    from rich.progress import track

    return track(batches, description="batches", console=Console(stderr=True), transient=True)
