"""The events of a run on their way to the one who listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from toolcaddie.core.events import RunEvent


class Live:
    """A slow listener slows the run down: at most `size` events wait. Once closed, events are let go unheard."""

    def __init__(self, size: int = 64) -> None:
        self._room = asyncio.Semaphore(size)
        self._waiting: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self._closed = False

    async def put(self, event: RunEvent) -> None:
        if self._closed:
            return
        await self._room.acquire()
        self._waiting.put_nowait(event)

    def end(self) -> None:
        """No more events; needs no room, so that it can be said at any time."""
        self._waiting.put_nowait(None)

    def close(self) -> None:
        """The listener has gone."""
        self._closed = True

    async def events(self) -> AsyncIterator[RunEvent]:
        while (event := await self._waiting.get()) is not None:
            self._room.release()
            yield event
