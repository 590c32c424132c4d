"""Lets the readers of large bodies go on one after the other.

All bodies that arrive at the same time would otherwise be read in each round of the event loop, a piece of each, and a small
request waits several rounds for its own answer.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def turn() -> None:
    """Returns when it is the turn of this task, one task in each round of the event loop. Awaited after each piece of a large
    body; nobody has a turn while he waits for the network."""
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await asyncio.sleep(0)
