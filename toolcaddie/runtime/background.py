"""Jobs that continue after the answer was returned, such as storing a conversation. A runtime waits for them before it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Background:
    """Keeps a reference to each running job, because asyncio itself may drop a task that nothing refers to."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finished(self) -> None:
        """Waits for all jobs. Each has logged its own failure."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
