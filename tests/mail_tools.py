"""Tools for tests of taint: one that sends something out, and one that does not."""

from __future__ import annotations

from toolcaddie import tool


@tool(open_world=True)
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@tool
def note(text: str) -> str:
    """Write a note."""
    return "noted"
