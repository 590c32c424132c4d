"""Pages of strangers as a source of tools: `python:security.bot_pages`."""

from __future__ import annotations

from toolcaddie import tool

PAGES: dict[int, str] = {}
"""The text of each page."""


@tool(read_only=True, untrusted=True)
async def read_page(number: int) -> str:
    """Read a page by its number."""
    return PAGES[number]
