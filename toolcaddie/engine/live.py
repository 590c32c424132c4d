"""Yields the events of a run to one reader while the run continues. `Runtime.stream` uses this."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from toolcaddie.core.events import RunEvent

_MOST_WAITING = 64
"""The largest number of events that wait for a slow reader; then the run waits too."""


async def streamed(
    begin: Callable[[Callable[[RunEvent], Awaitable[None]]], Coroutine[Any, Any, object]],
) -> AsyncIterator[RunEvent]:
    """Yields the events of a run. `begin` starts the run and passes its events to the given function. Closing the iterator
    cancels the run."""
    places = asyncio.Semaphore(_MOST_WAITING)
    waiting: asyncio.Queue[RunEvent | None] = asyncio.Queue()
    has_listener = True

    async def put(event: RunEvent) -> None:
        if has_listener:
            await places.acquire()
            waiting.put_nowait(event)

    task = asyncio.create_task(begin(put))
    task.add_done_callback(lambda _: waiting.put_nowait(None))  # the end takes no place, so it never waits
    try:
        while (event := await waiting.get()) is not None:
            places.release()
            yield event
        await task
    finally:
        has_listener = False
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # asyncio would complain that nobody looked at it; a listener who has left is not told
