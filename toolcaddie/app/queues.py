"""The queue of durable work of one process, which costs nothing until there is work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.jobs.installed import is_installed
from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.jobs.unfinished import unfinished_work
from toolcaddie.storage.database import Database, is_in_memory
from toolcaddie.storage.engines import BUSY_SECONDS, engine_of, parse_url
from toolcaddie.util.log import Logger

log = Logger(__name__)

_LOOK_SECONDS = 2.0
"""Seconds between two looks for work that other processes have left. Such a look is one query of one table."""


class QueueOnDemand:
    """Implements `ports.WorkQueue` with a queue that is opened when it is first used, or, in a server, when another process has
    left work."""

    def __init__(self, database_url: str, database: Database) -> None:
        self._database_url = database_url
        self._database = database
        self._kinds: dict[str, WorkKind] = {}
        self._queue: DurableQueue | None = None
        self._opening = asyncio.Lock()

    @property
    def is_available(self) -> bool:
        """True if this installation and its database can do durable work."""
        return is_installed() and not is_in_memory(self._database_url)

    def knows(self, kind: str) -> bool:
        """Returns True if work of a kind can be put here, and some process does it."""
        return self.is_available and kind in self._kinds

    def add(self, kinds: Mapping[str, WorkKind]) -> None:
        """Does this work too. Must be called before the queue is used."""
        self._kinds |= kinds

    async def open(self) -> DurableQueue:
        """Returns the open queue. Raises `ConfigError` if this process cannot have one."""
        async with self._opening:
            if self._queue is None:
                queue = DurableQueue(self._database_url, self._database.store, self._kinds)
                await queue.open()
                self._queue = queue
            return self._queue

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Looks for work of other processes, until the `with` block ends, and opens the queue when there is some."""
        if not self.is_available:
            yield
            return
        task = asyncio.create_task(self._look())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _look(self) -> None:
        url = parse_url(self._database_url)
        engine = engine_of(url, in_memory=False, busy=BUSY_SECONDS)
        try:
            while self._queue is None:
                try:
                    left = await asyncio.to_thread(unfinished_work, url, engine)
                    if self._kinds.keys() & left:
                        await self.open()
                        return
                except ToolcaddieError as error:
                    log.warning("durable_work_not_looked_for", error=str(error))
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            engine.dispose()

    async def close(self) -> None:
        if self._queue is not None:
            await self._queue.close()

    async def put(
        self, kind: str, work_id: str, payload: bytes, *, delay: float = 0.0, tenant: str | None = None
    ) -> None:
        await (await self.open()).put(kind, work_id, payload, delay=delay, tenant=tenant)

    async def result(self, work_id: str, *, timeout: float | None = None) -> bytes:
        return await (await self.open()).result(work_id, timeout=timeout)

    async def cancel(self, work_id: str) -> None:
        await (await self.open()).cancel(work_id)
