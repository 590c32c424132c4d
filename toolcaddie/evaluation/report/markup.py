"""Text on its way into a page."""

from __future__ import annotations

import html

from toolcaddie.util.text import visible


def escape(text: str) -> str:
    """The text as markup shows it: no markup of its own, and what would turn the reading order spelled out."""
    return html.escape(visible(text))
