"""The output of text to a terminal, with the control characters in it spelled out.

All commands print with these functions. The only exception is `output.print_table`, which spells out the control characters of
its cells itself. This file is separate from `output`, so that errors are printed without loading the library that draws tables.
"""

from __future__ import annotations

from typing import Any

import click

from toolcaddie.util.text import visible, visible_json


def echo(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Prints a text with its control characters spelled out (`\\x1b`). `err`: True for stderr. `nl`: True for a line feed at the
    end. `style`: arguments of `click.style`, such as a colour."""
    safe_text = visible(text)
    click.echo(click.style(safe_text, **style) if style else safe_text, err=err, nl=nl)


def echo_json(document: str, *, err: bool = False) -> None:
    """Prints a JSON document with its control characters as JSON escapes: it decodes to the same value."""
    click.echo(visible_json(document), err=err)
