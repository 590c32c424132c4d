"""Repeats of a change that others were faster with, with a short wait in between.

for number in ATTEMPTS:
    if await store.compare_and_set(...):
        return
    await pause(number)
raise crowded("SOUL.md")
"""

from __future__ import annotations

import asyncio
import random

from toolcaddie.core.errors import StorageError

ATTEMPTS = range(200)
"""The numbers of the attempts at a compare-and-set. Each failed one means that another writer has succeeded."""
_SHORTEST, _LONGEST = 0.001, 0.05


async def pause(number: int) -> None:
    """Waits after a failed attempt, longer after more of them."""
    await asyncio.sleep(random.uniform(_SHORTEST, min(_LONGEST, _SHORTEST * (number + 2))))


def crowded(what: str) -> StorageError:
    return StorageError(f"others change {what} all the time, so nothing was written; try again")
