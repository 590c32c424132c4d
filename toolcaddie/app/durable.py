"""The durable work of one process: bots that other bots ask, and the jobs of schedules.

    async with working(settings, runtime, parts, database) as work:
        async with work.serving():   # a server: it also begins jobs, and does the work that other processes left
            ...

A command that asks a bot opens the queue when it is first used. Only servers run jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from toolcaddie.app.bots import BotParts, BotsOnDemand, MessengerOnDemand, bot_parts
from toolcaddie.app.box import names_source
from toolcaddie.app.recalling import recall_of
from toolcaddie.app.settings import JobSettings, Settings
from toolcaddie.bots import working as bot_work
from toolcaddie.bots.jobs import JobRunner
from toolcaddie.bots.running import Runner
from toolcaddie.jobs.catching_up import CatchUpRule
from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.jobs.scheduler import WORK, Scheduler
from toolcaddie.parts import Parts
from toolcaddie.runtime import Runtime
from toolcaddie.storage.database import Database

_NEEDS = ("cron", "improve", "team")
"""Types of sources whose tools begin durable work."""


class QueueOnDemand:
    """Implements `ports.WorkQueue` with a queue that is opened when it is first used."""

    def __init__(self, database_url: str, database: Database) -> None:
        self._database_url = database_url
        self._database = database
        self._kinds: dict[str, WorkKind] = {}
        self._queue: DurableQueue | None = None
        self._opening = asyncio.Lock()

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

    async def close(self) -> None:
        if self._queue is not None:
            await self._queue.close()

    async def put(self, kind: str, work_id: str, payload: bytes, *, delay: float = 0.0) -> None:
        await (await self.open()).put(kind, work_id, payload, delay=delay)

    async def result(self, work_id: str, *, timeout: float | None = None) -> bytes:
        return await (await self.open()).result(work_id, timeout=timeout)

    async def cancel(self, work_id: str) -> None:
        await (await self.open()).cancel(work_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The bots of one process, and their durable work."""

    bots: BotParts
    messenger: MessengerOnDemand
    queue: QueueOnDemand
    database: Database
    jobs: JobSettings
    has_bots: bool
    begins: bool
    """True if the settings have tools that begin durable work."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Continues work that waited for people and, if there are tools for it, runs jobs and does what other processes left."""
        async with AsyncExitStack() as stack:
            if self.has_bots:
                looking = asyncio.create_task(self.bots.continuing.look_forever())
                stack.push_async_callback(_cancelled, looking)
            if self.has_bots and self.begins:
                await self._serve_queue(stack)
            yield

    async def _serve_queue(self, stack: AsyncExitStack) -> None:
        runner = JobRunner(worker=self.bots.worker, messenger=self.messenger)

        async def work(payload: bytes) -> bytes:
            return await scheduler.work(payload)

        self.queue.add({WORK: WorkKind(do=work, at_once=self.jobs.at_once)})
        queue = await self.queue.open()
        catch_up = CatchUpRule(policy=self.jobs.catch_up, most=self.jobs.catch_up_most)
        scheduler = Scheduler(self.database.jobs, self.database.store, queue, runner.run, catch_up=catch_up)
        await stack.enter_async_context(scheduler)


@asynccontextmanager
async def working(settings: Settings, runtime: Runtime, parts: Parts, database: Database) -> AsyncIterator[Work]:
    """Yields the work of a process, and lets the tools of `parts` reach the bots."""
    bots = bot_parts(runtime, parts, store=database.store, recall=recall_of(settings, parts), bots=settings.bots)
    queue = QueueOnDemand(settings.database_url, database)
    queue.add({bot_work.KIND: WorkKind(do=bots.worker.do_payload, at_once=None)})
    if isinstance(parts.bots, BotsOnDemand):
        parts.bots.bind(Runner(runtime=runtime, queue=queue, bots=settings.bots))
    assert isinstance(parts.messenger, MessengerOnDemand), "`host_parts` makes it"
    try:
        yield Work(
            bots=bots,
            messenger=parts.messenger,
            queue=queue,
            database=database,
            jobs=settings.jobs,
            has_bots=bool(settings.bots),
            begins=any(names_source(settings, each) for each in _NEEDS),
        )
    finally:
        await queue.close()


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
