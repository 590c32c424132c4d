"""A queue of a run's events for one listener."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from toolcaddie.core.events import RunEvent


class Live:
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
