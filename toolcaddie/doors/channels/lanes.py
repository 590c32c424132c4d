"""Queues of work, one for each chat: the work of a chat is done in order, and that of different chats at the same time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from toolcaddie.util.log import Logger

log = Logger(__name__)

Job = Callable[[], Awaitable[None]]


class Lanes:
    """The queues. `most_waiting`: the largest number of jobs that wait in one queue. An empty queue takes no memory."""

    def __init__(self, *, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._queues: dict[str, deque[tuple[Job, bool]]] = {}
        """The jobs of each queue, and whether each counts as waiting."""
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """The number of chats with work."""
        return len(self._queues)

    def put(self, chat: str, job: Job, *, always: bool = False, counts: bool = True) -> bool:
        """Adds a job to the queue of a chat. Returns False if the queue is full. `always`: however full it is. `counts`: False
        for work that takes no place of a message."""
        queue = self._queues.get(chat)
        if queue is None:
            self._queues[chat] = deque([(job, counts)])
            task = asyncio.create_task(self._work(chat), name=f"chat {chat}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return True
        if not always and sum(counted for _, counted in queue) >= self._most_waiting:
            return False
        queue.append((job, counts))
        return True

    async def close(self) -> None:
        """Cancels all work."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._queues.clear()

    async def _work(self, chat: str) -> None:
        queue = self._queues[chat]
        try:
            while queue:
                job, _ = queue.popleft()
                try:
                    await job()
                except Exception:  # the outermost frame of a job: the next message must be answered
                    log.exception("channel_job_failed", chat=chat)
        finally:
            if self._queues.get(chat) is queue:
                del self._queues[chat]
