"""``rnncost schema``: the JSON Schema of a saved report; needs no torch."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rnncost.cli.output import print_file, save_files, standard_output
from rnncost.errors import ReportFormatError
from rnncost.reporting.schema import report_schema
from rnncost.reporting.storage import write_file


@click.command("schema")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the schema to this file, not to standard output.",
)
def command(path: Path | None) -> None:
    """Print the JSON Schema (draft 2020-12) of the reports that rnncost saves."""
    text = json.dumps(report_schema(), indent=1) + "\n"
    if path is None:
        with standard_output():
            print_file(text)
        return
    failed = save_files((path,), lambda each: write_file(each, text))
    if failed:
        raise ReportFormatError(failed)
