"""``rnncost show``: draws a saved report; needs no torch."""

from __future__ import annotations

from pathlib import Path

import click

from rnncost.cli.output import output_options, write_report
from rnncost.reporting.report import CostReport


@click.command("show")
@click.argument("report", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@output_options
def command(report: Path, paths: tuple[Path, ...], format_name: str, chart: str | None) -> None:
    """Draw the saved report REPORT (a JSON file) again."""
    write_report(CostReport.load(report), paths=paths, format_name=format_name, chart=chart)
