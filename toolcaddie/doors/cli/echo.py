"""The one place where text goes to a terminal: strangers' control characters are spelled out here.

The linter bans `click.echo` everywhere else. Apart from `output`, because errors are told without loading what draws tables.
"""

from __future__ import annotations

from typing import Any

import click

from toolcaddie.util.text import visible, visible_json


def echo(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """A text, control characters in it spelled out; `style` as `click.style` takes it."""
    shown = visible(text)
    click.echo(click.style(shown, **style) if style else shown, err=err, nl=nl)


def echo_json(document: str, *, err: bool = False) -> None:
    """A JSON document, control characters in it as JSON's own escapes: it decodes to the same value."""
    click.echo(visible_json(document), err=err)
