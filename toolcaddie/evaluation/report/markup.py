"""Escapes texts for the HTML page of `toolcaddie eval --report`."""

from __future__ import annotations

import html

from toolcaddie.util.text import visible


def escape(text: str) -> str:
    """Returns HTML that shows the text literally. Characters that would change the reading order are shown by their codes."""
    return html.escape(visible(text))
