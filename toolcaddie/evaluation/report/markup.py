"""The escaping of texts in a page."""

from __future__ import annotations

import html

from toolcaddie.util.text import visible


def escape(text: str) -> str:
    """Returns the text as markup that shows it literally; characters that would change the reading order are spelled out."""
    return html.escape(visible(text))
