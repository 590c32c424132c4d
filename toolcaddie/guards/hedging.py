"""Hedged reads: if an answer takes long, the same request is sent a second time, and the first answer counts.

Only for requests without effects. The slow one of two servers behind one address then no longer decides how long a read takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def hedged(send: Callable[[], Coroutine[Any, Any, T]], after: float | None) -> T:
    """Returns the result of `send`. If there is none after so many seconds (None: however long it takes), `send` is called
    again; the first result counts, and the other request is cancelled. Raises the error of the last one if both fail."""
    if after is None:
        return await send()
    tasks = {asyncio.create_task(send())}
    try:
        finished, _ = await asyncio.wait(tasks, timeout=after)
        if not finished:
            tasks.add(asyncio.create_task(send()))
        while True:
            finished, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            answered = [task for task in finished if not task.cancelled() and task.exception() is None]
            if answered or not pending:
                return (answered or list(finished))[0].result()
            tasks = pending
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
