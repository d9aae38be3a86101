"""``rnncost compare``: what changed between two saved reports; needs no torch."""

from __future__ import annotations

from pathlib import Path

import click

from rnncost.cli.output import check_paths, write
from rnncost.errors import RegressionError
from rnncost.reporting.compare import compare
from rnncost.reporting.renderers.comparison import (
    COMPARISON_FORMATS,
    comparison_renderer_for_format,
    comparison_renderer_for_path,
)
from rnncost.reporting.report import CostReport

_REPORT = click.Path(exists=True, dir_okay=False, path_type=Path)


def _check_paths(ctx: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    return check_paths(paths, comparison_renderer_for_path)


@click.command("compare")
@click.argument("baseline", metavar="BASE", type=_REPORT)
@click.argument("current", type=_REPORT)
@click.option(
    "--fail-on",
    default="mults:0%",
    show_default=True,
    metavar="METRIC:LIMIT[,...]",
    help="Growth from which on to exit with 1, of each layer and in total: mults, adds, macs, flops, rows, "
    "activations or wasted, by a percentage or a count (macs:10k); none for no limit.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(COMPARISON_FORMATS),
    default="text",
    show_default=True,
    help="Format of the comparison on standard output.",
)
@click.option(
    "-o",
    "--output",
    "paths",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    multiple=True,
    callback=_check_paths,
    help="Also write it to this file, by suffix: .txt, .md, .json or .html; may be repeated.",
)
def command(baseline: Path, current: Path, *, fail_on: str, format_name: str, paths: tuple[Path, ...]) -> None:
    """Compare the saved report CURRENT with BASE (JSON files), layer by layer.

    Counts are exact and do not depend on the machine, so that a limit of 0% holds. The exit
    status is 1 where a layer or the total grew beyond a limit, or where that cannot be told.
    """
    comparison = compare(CostReport.load(baseline), CostReport.load(current), fail_on=fail_on)
    write(
        paths=paths,
        save=comparison.save,
        format_name=format_name,
        show=comparison.print,
        render=lambda name: comparison_renderer_for_format(name).render(comparison),
    )
    if comparison.regressed:
        raise RegressionError(comparison.message)
