"""Jinja templates. Whatever is put into them is escaped."""

from __future__ import annotations

from pathlib import Path

import jinja2


def environment() -> jinja2.Environment:
    """The templates of this folder, with autoescape on and undefined names refused."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
