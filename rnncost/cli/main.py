"""The ``rnncost`` command: finds a command's file when it is asked for, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import shlex
import sys
from typing import Any

import click

from rnncost._version import __version__
from rnncost.errors import RegressionError, RnncostError

# name: one line of help. Each lives in the module of its name, imported when it is used.
_COMMANDS = {
    "report": "Run a model on its batches and report what its recurrent layers cost.",
    "lengths": "Explain one batch of sequence lengths.",
    "show": "Draw a saved report again.",
    "merge": "Sum saved reports into one.",
    "compare": "Compare two saved reports, layer by layer, and fail where work grew.",
    "schema": "Print the JSON Schema of a saved report.",
}
# Where a command finds, in its context, the line that it was called by.
COMMAND_LINE = "rnncost.command_line"
EXIT_MISSED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # as a shell reports SIGINT


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"rnncost.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[COMMAND_LINE] = shlex.join(["rnncost", *args])
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RnncostError as error:
            click.echo(f"rnncost: {error}", err=True)
            sys.exit(EXIT_MISSED if isinstance(error, RegressionError) else EXIT_USAGE)
        except KeyboardInterrupt:
            click.echo("rnncost: interrupted", err=True)
            sys.exit(EXIT_INTERRUPTED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rnncost")
def main() -> None:
    """Shows what PyTorch's recurrent layers really cost, packed and padded.

    Exit status: 0 done; 1 a limit missed or a regression; 2 wrong usage, an unreadable file or a bad model file.
    """
