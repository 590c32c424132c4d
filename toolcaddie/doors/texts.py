"""Numbers, moments and long texts as people read them, in a terminal and in the console."""

from __future__ import annotations

from datetime import datetime


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: `1 run`, `2,000 runs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def local_time(seconds: float | None) -> str:
    """Returns seconds since the epoch as a local date and time."""
    return "" if seconds is None else datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def shortened(text: str, size: int) -> str:
    """Returns the text as one line of at most `size` characters."""
    line = " ".join(text.split())
    return line if len(line) <= size else line[: size - 1] + "…"
