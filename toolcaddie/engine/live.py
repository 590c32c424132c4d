"""The events of a run for one listener, while the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from toolcaddie.core.events import RunEvent


async def streamed(
    begin: Callable[[Callable[[RunEvent], Awaitable[None]]], Coroutine[Any, Any, object]],
) -> AsyncIterator[RunEvent]:
    """Yields the events of a run. `begin` starts the run with a listener; closing the iterator cancels it."""
    live = _Live()
    task = asyncio.create_task(begin(live.put))
    task.add_done_callback(lambda _: live.end())
    try:
        async for event in live.events():
            yield event
        await task
    finally:
        live.close()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # asyncio would complain that nobody looked at it; a listener who has left is not told


class _Live:
    """Queues events for a listener. A slow one slows the run down: at most `size` events wait. Once closed, it drops events."""

    def __init__(self, size: int = 64) -> None:
        self._places = asyncio.Semaphore(size)
        self._waiting: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self._closed = False

    async def put(self, event: RunEvent) -> None:
        if self._closed:
            return
        await self._places.acquire()
        self._waiting.put_nowait(event)

    def end(self) -> None:
        """Ends the stream. The end takes no place in the queue, so it never waits."""
        self._waiting.put_nowait(None)

    def close(self) -> None:
        """Drops all further events, because the listener has gone."""
        self._closed = True

    async def events(self) -> AsyncIterator[RunEvent]:
        while (event := await self._waiting.get()) is not None:
            self._places.release()
            yield event
