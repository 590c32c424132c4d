"""Tools that show everything they are given: in results, in exceptions, and in calls that wait for a person."""

from __future__ import annotations

from toolcaddie import tool


@tool(read_only=True)
async def echo_text(text: str, note: str = "") -> str:
    """Repeat a text and a note."""
    return f"{text} {note}"


@tool(read_only=True)
async def break_with(text: str) -> str:
    """Fail, and quote the text."""
    raise ValueError(f"cannot connect to db://user:{text}@host with {text}")


@tool(destructive=True)
async def send_text(text: str) -> str:
    """Send a text to somebody."""
    return f"sent {text}"
