"""``rnncost merge``: sums saved reports; needs no torch."""

from __future__ import annotations

from pathlib import Path

import click

from rnncost.cli.output import output_options, write_report
from rnncost.reporting.report import CostReport, merge


@click.command("merge")
@click.argument("reports", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@output_options
def command(reports: tuple[Path, ...], paths: tuple[Path, ...], format_name: str, chart: str | None) -> None:
    """Sum the saved REPORTS (JSON files) of several processes, epochs or machines."""
    merged = merge(*(CostReport.load(path) for path in reports))
    write_report(merged, paths=paths, format_name=format_name, chart=chart)
