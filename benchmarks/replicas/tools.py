"""The tools of the servers under load. Each write appends a line to a file, so that effects can be counted: the entry, and the
moment in seconds since the epoch."""

from __future__ import annotations

import os
import time

from toolcaddie import tool

EFFECTS = "REPLICAS_EFFECTS"
"""Environment variable with the path of that file."""


@tool
def write_entry(entry: str) -> str:
    """Write an entry into the book of entries."""
    with open(os.environ[EFFECTS], "ab", buffering=0) as book:
        book.write(f"{entry} {time.time()}\n".encode())
    return f"written: {entry}"


@tool(read_only=True)
def read_entry(entry: str) -> str:
    """Read an entry of the book of entries."""
    return f"{entry} is in the book"
