"""What a stream can show: block characters, or ASCII where its encoding has none."""

from __future__ import annotations

import msgspec


class Glyphs(msgspec.Struct, frozen=True, kw_only=True):
    """The characters of the pictures. All differ, so that a picture is legible without colour."""

    useful: str
    wasted: str
    unknown: str
    extra: str
    saved: str
    real: str
    mixed: str
    filler: str


BLOCKS = Glyphs(useful="█", wasted="░", unknown="?", extra="▓", saved="·", real="█", mixed="▒", filler="·")
ASCII = Glyphs(useful="#", wasted="-", unknown="?", extra="!", saved=".", real="#", mixed="+", filler=".")


def can_show(characters: str, encoding: str) -> bool:
    """Whether an encoding has these characters."""
    try:
        characters.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def fit_encoding(text: str, encoding: str) -> str:
    """The text with what ``encoding`` lacks drawn otherwise: lines as ``-``, the rest escaped."""
    try:
        text.encode(encoding)
        return text
    except (UnicodeEncodeError, LookupError):
        plain = text.translate({ord("─"): "-"})
        return plain.encode("ascii", "backslashreplace").decode("ascii")
