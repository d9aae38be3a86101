"""``rnncost report``: says what a model's recurrent layers cost, on its batches or on given lengths."""

from __future__ import annotations

import contextlib
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import msgspec

from rnncost.cli.main import COMMAND_LINE
from rnncost.cli.output import output_options, write_report
from rnncost.cli.progress import counted, time_bar
from rnncost.counting.lengths import parse_lengths
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


@click.command("report")
@click.argument("target", metavar="MODEL.PY[:NAME]")
@output_options
@click.option("--lengths", "lengths_text", metavar="9,8,6", help="Estimate on these lengths; nothing is run.")
@click.option(
    "--lengths-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Estimate on the lengths in this file, one a line or with commas.",
)
@click.option(
    "--batch-size", type=click.IntRange(min=1), help="Cut the lengths into batches of so many, in their order."
)
@click.option(
    "--layout",
    type=click.Choice(["packed", "padded"]),
    default="packed",
    show_default=True,
    help="How an estimate takes the batches to be run.",
)
@click.option("--backward", is_flag=True, help="Run (or estimate) and count the backward of the outputs' sum too.")
@click.option(
    "--time", "timing", is_flag=True, help="Also time each call of the run, but for those of a verified first batch."
)
@click.option("--check", is_flag=True, help="Also compare padded with packed results, layer by layer.")
@click.option("--whole-model", is_flag=True, help="Also say what part of the whole model the recurrent layers are.")
@click.option(
    "--profile", is_flag=True, help="Also time each recurrent layer in several layouts, on a batch that it saw."
)
@click.option("--device", metavar="D", help="Where to time, e.g. cuda; by default where the layer is.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="Seconds for --profile, about: a layer gets three rounds, whatever it is.",
)
@click.option("--no-verify", is_flag=True, help="Do not compare the counts with the kernels of the first batch.")
@click.option(
    "--max-wasted",
    metavar="PCT",
    callback=_parsed(parse_fraction),
    help="Exit 1 if more of the executed mults was padding, e.g. 5%.",
)
@click.option(
    "--min-saved",
    metavar="PCT",
    callback=_parsed(parse_fraction),
    help="Exit 1 if less of the padded mults was saved, e.g. 30%.",
)
@click.option(
    "--max-macs", metavar="N", callback=_parsed(parse_count), help="Exit 1 if more MACs were executed, e.g. 1.2M."
)
def command(
    target: str,
    lengths_text: str | None,
    lengths_file: Path | None,
    batch_size: int | None,
    layout: str,
    backward: bool,
    timing: bool,
    check: bool,
    whole_model: bool,
    profile: bool,
    device: str | None,
    budget: float,
    no_verify: bool,
    paths: tuple[Path, ...],
    format_name: str,
    chart: str | None,
    max_wasted: Fraction | None,
    min_saved: Fraction | None,
    max_macs: int | None,
) -> None:
    """Run the model of MODEL.PY on its batches and report what its recurrent layers cost.

    MODEL.PY names an object, or defines one of: build() returning (model, batches); model and
    batches; exactly one torch.nn.Module. A batch is a tensor, a PackedSequence, a tuple of
    positional arguments or a dict of keyword arguments.

    With --lengths or --lengths-file nothing is run: the cost is estimated, also of a layer
    written as lstm:12x64x2:bi instead of MODEL.PY.
    """
    lengths = _lengths(lengths_text, lengths_file)
    if lengths is None and (batch_size is not None or layout != "packed"):
        raise click.UsageError("--batch-size and --layout belong to an estimate; give --lengths or --lengths-file")
    if lengths is not None and (timing or check or whole_model):
        raise click.UsageError("--time, --check and --whole-model run the model; leave the lengths out")
    if lengths is None and _is_spec(target):
        raise click.UsageError(f"{target} is a layer without a file, which can be estimated alone; give --lengths")
    if not profile and device is not None:
        raise click.UsageError("--device says where to time; give --profile with it")
    if profile:
        _check_device(device)
    # What the user's code prints must not mix with the report.
    with contextlib.redirect_stdout(sys.stderr), _warnings_as_lines(), _own_arguments(target):
        if lengths is not None:
            model = _model(target)
            report = _estimate(model, lengths, layout=layout, batch_size=batch_size, backward=backward)
        else:
            model, report = _run(
                target,
                backward=backward,
                timing=timing,
                check=check,
                whole_model=whole_model,
                verify=not no_verify,
            )
        if profile:
            report = _profile(model, report, device=device, backward=backward, budget_s=budget)
    report = msgspec.structs.replace(report, commands=(click.get_current_context().meta[COMMAND_LINE],))
    write_report(report, paths=paths, format_name=format_name, chart=chart)
    _hold_to_limits(report, max_wasted=max_wasted, min_saved=min_saved, max_macs=max_macs)


def _lengths(text: str | None, file: Path | None) -> tuple[int, ...] | None:
    if text is not None and file is not None:
        raise click.UsageError("give --lengths or --lengths-file, not both")
    if text is not None:
        return parse_lengths(text, source="--lengths")
    if file is None:
        return None
    try:
        return parse_lengths(file.read_text(encoding="utf-8-sig"), source=str(file))
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file}: cannot be read as a file of lengths: {error}") from None


def _model(target: str) -> Any:
    """A layer as text, or the model of a file, which needs no batches."""
    from rnncost.cli.loading import load_target

    return target if _is_spec(target) else load_target(target, needs_batches=False).model


def _estimate(
    model: Any, lengths: tuple[int, ...], *, layout: Any, batch_size: int | None, backward: bool
) -> CostReport:
    from rnncost.tracking import estimate

    return estimate(model, lengths, layout=layout, batch_size=batch_size, backward=backward)


def _check_device(device: str | None) -> None:
    # Before the model runs: a long run must not end in an error that was known at its start.
    if device is not None:
        from rnncost.timing.clock import check_device

        check_device(device)


def _profile(model: Any, report: CostReport, *, device: str | None, backward: bool, budget_s: float) -> CostReport:
    from rnncost.timing.profiler import profile_layers

    if isinstance(model, str):
        raise click.UsageError("--profile needs a model file; a layer as text has no weights to run")
    with time_bar() as progress:
        return profile_layers(model, report, device=device, backward=backward, budget_s=budget_s, progress=progress)


def _is_spec(target: str) -> bool:
    """Whether a target is a layer such as lstm:12x64; no model file's name begins like one."""
    return target.partition(":")[0].lower() in ("lstm", "gru", "rnn", "rnn_tanh", "rnn_relu")


def _run(
    target: str, *, backward: bool, timing: bool, check: bool, whole_model: bool, verify: bool
) -> tuple[Any, CostReport]:
    from rnncost.cli.loading import load_target
    from rnncost.tracking.run import check_layers, run_batches

    loaded = load_target(target)
    batches = iter(loaded.batches)
    first = list(itertools.islice(batches, 1))
    report = run_batches(
        loaded.model,
        counted(itertools.chain(first, batches)),
        backward=backward,
        timing=timing,
        verify=verify,
    )
    if check:
        report = check_layers(loaded.model, report)
    if whole_model and first:
        from rnncost.integrations.whole_model import measure_whole_model

        report = msgspec.structs.replace(report, whole_models=(measure_whole_model(loaded.model, first[0]),))
    return loaded.model, report


def _hold_to_limits(
    report: CostReport, *, max_wasted: Fraction | None, min_saved: Fraction | None, max_macs: int | None
) -> None:
    missed = [
        None if max_wasted is None else limits.max_wasted_missed(report, max_wasted),
        None if min_saved is None else limits.min_saved_missed(report, min_saved),
        None if max_macs is None else limits.max_macs_missed(report, max_macs),
    ]
    if any(missed):
        raise RegressionError("\n".join(message for message in missed if message))


@contextlib.contextmanager
def _own_arguments(target: str) -> Iterator[None]:
    """Gives a file that parses arguments its own, not rnncost's, and does not let it end the process."""
    arguments = sys.argv
    sys.argv = [target.partition(".py:")[0]]
    try:
        yield
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
