"""The durable work of one process: bots that other bots ask, and the jobs of schedules.

    async with working(settings, runtime, parts, database) as work:
        async with work.serving():   # a server: it also begins jobs, and does the work that other processes left
            ...

A command that asks a bot opens the queue when it is first used. Only servers run jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from toolcaddie.app.bots import BotParts, BotsOnDemand, MessengerOnDemand, bot_parts
from toolcaddie.app.box import names_source
from toolcaddie.app.queues import QueueOnDemand
from toolcaddie.app.recalling import recall_of
from toolcaddie.app.settings import JobSettings, Settings
from toolcaddie.bots import working as bot_work
from toolcaddie.bots.jobs import JobRunner
from toolcaddie.bots.running import Runner
from toolcaddie.jobs.catching_up import CatchUpRule
from toolcaddie.jobs.queue import WorkKind
from toolcaddie.jobs.scheduler import EARLIER_WORK, WORK, Scheduler
from toolcaddie.parts import Parts
from toolcaddie.runtime import Runtime
from toolcaddie.storage.database import Database

_NEEDS = ("cron", "improve", "team")
"""Types of sources whose tools begin durable work."""


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
        """Continues work that waited for people, does what other processes left and, if there are tools for it, runs jobs."""
        async with AsyncExitStack() as stack:
            if self.has_bots:
                looking = asyncio.create_task(self.bots.continuing.look_forever())
                stack.push_async_callback(_cancelled, looking)
            if self.has_bots and self.begins:
                await self._serve_queue(stack)
            await stack.enter_async_context(self.queue.looking())
            yield

    async def _serve_queue(self, stack: AsyncExitStack) -> None:
        runner = JobRunner(worker=self.bots.worker, messenger=self.messenger)

        async def work(payload: bytes) -> bytes:
            return await scheduler.work(payload)

        most = self.jobs.at_once
        self.queue.add(
            {
                WORK: WorkKind(do=work, at_once=most, tenant_at_once=self.jobs.tenant_at_once),
                EARLIER_WORK: WorkKind(do=work, at_once=most),
            }
        )
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
