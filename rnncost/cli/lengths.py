"""``rnncost lengths``: explains one batch."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rnncost.cli.output import standard_output
from rnncost.counting.lengths import parse_lengths
from rnncost.errors import LengthsError
from rnncost.reporting.renderers.glyphs import can_show
from rnncost.reporting.renderers.lengths import LengthsRenderer

_LENGTHS = "0123456789+-, \t\r\n"


@click.command("lengths", context_settings={"ignore_unknown_options": True})
@click.argument("lengths")
def command(lengths: str) -> None:
    """Explain the batch of sequences with these LENGTHS.

    LENGTHS are given with commas (9,8,6,4,3,2) or as a file, one a line or with commas.
    Shown are the occupied cells of the padded rectangle, the batch_sizes of the packed
    batch, and what a dot product along each sequence costs packed and padded.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    renderer = LengthsRenderer(ascii_only=not can_show("█·", encoding))
    text = renderer.render(read_lengths(lengths))
    with standard_output():
        click.echo(text, nl=False)


def read_lengths(text: str) -> tuple[int, ...]:
    """Lengths from text such as ``9,8,6``, or from the file that it names.

    Raises:
        LengthsError: naming the value and its position.
    """
    if not text.strip(_LENGTHS):
        return parse_lengths(text)
    if _is_there(text):
        try:
            return parse_lengths(Path(text).read_text(encoding="utf-8-sig"), source=text)
        except (OSError, UnicodeDecodeError) as error:
            raise LengthsError(f"{_short(text)}: cannot be read as a file of lengths: {error}") from None
    if "," in text or not text.strip(_LENGTHS + "."):
        return parse_lengths(text)
    raise LengthsError(f"{_short(text)}: neither a file nor lengths such as 9,8,6")


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # too long for a path
        return False


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."
