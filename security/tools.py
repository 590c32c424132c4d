"""The tools of the processes that are killed. Each write appends a line to a file, so that effects can be counted."""

from __future__ import annotations

import asyncio
import os
import random

from toolcaddie import tool

EFFECTS = "SECURITY_EFFECTS"
"""Environment variable with the path of that file."""

_SLOWEST = 0.03


@tool
async def write_entry(entry: str) -> str:
    """Write an entry into the book of entries."""
    await asyncio.sleep(random.uniform(0, _SLOWEST))
    with open(os.environ[EFFECTS], "ab", buffering=0) as book:  # noqa: ASYNC230  one write of a few bytes, in one piece
        book.write(f"{entry}\n".encode())
    await asyncio.sleep(random.uniform(0, _SLOWEST))
    return f"written: {entry}"


@tool(read_only=True)
async def count_entries() -> int:
    """Count the entries in the book of entries."""
    await asyncio.sleep(random.uniform(0, _SLOWEST))
    with open(os.environ[EFFECTS], "rb") as book:  # noqa: ASYNC230
        return book.read().count(b"\n")
