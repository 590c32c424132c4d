"""The one place where text goes to a terminal: control characters from outside are spelled out here.

The linter bans `click.echo` everywhere else. It is a file of its own because errors are printed without loading the
library that `output` draws tables with.
"""

from __future__ import annotations

from typing import Any

import click

from toolcaddie.util.text import visible, visible_json


def echo(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Prints a text with its control characters spelled out; `style`: the arguments of `click.style`."""
    safe_text = visible(text)
    click.echo(click.style(safe_text, **style) if style else safe_text, err=err, nl=nl)


def echo_json(document: str, *, err: bool = False) -> None:
    """Prints a JSON document with its control characters as JSON escapes: it decodes to the same value."""
    click.echo(visible_json(document), err=err)
