"""Durable work on DBOS: what is put here is done by some process, whatever dies meanwhile. Implements `ports.WorkQueue`.

    async with DurableQueue(database_url, database.store, {"jobs": WorkKind(do)}) as queue:
        await queue.put("jobs", "job:1", b"payload")
        await queue.result("job:1")

DBOS knows each process by an executor id. Here it is the number of the process's lease, which no other process ever gets. Every
process looks once a second for work of executors whose leases are gone, and puts it back into its queue. A process that lost its
own lease stops its work, which another process does by then, and begins again under its new number.

DBOS has threads and an event loop of its own; its loop hands each piece of work to ours. It sees neither our event loop nor
signals, and its log goes to ours. Payloads and results are stored as JSON, because DBOS's default, pickle, would let anyone who
can write the database run code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from toolcaddie.core.errors import ConfigError, RunError, StorageError
from toolcaddie.jobs.engine import Engine, Lane
from toolcaddie.jobs.replicas import forget_dead, register, unregister
from toolcaddie.ports import Store
from toolcaddie.util.log import Logger
from toolcaddie.util.waiting import wait_up_to

log = Logger(__name__)

T = TypeVar("T")

_LOOK_SECONDS = 1.0
_KEEP_SECONDS = 7 * 86_400.0
"""Age at which finished work is forgotten; its id could then be put again."""
_CLEAN_SECONDS = 3_600.0
_POLL_SECONDS = 0.1
"""Seconds between two looks for the result of work that another process does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkKind:
    """A kind of work."""

    do: Callable[[bytes], Awaitable[bytes]] | None
    """Does a piece of work and returns its result. It may run again after a crash, with the same payload. An exception means that
    it has failed for good. None: this process puts such work, and leaves it to others."""
    at_once: int | None = 100
    """The largest number of pieces that one process does at the same time; None: any. Work that waits for other work of its kind
    must have None, or all places could be taken by those that wait."""
    tenant_at_once: int | None = None
    """The largest number of pieces of one tenant that all processes together do at the same time; None: any. If it is set, each
    piece is put with its tenant, and the tenants take turns."""
    tenant_waiting: int | None = None
    """The largest number of pieces of one tenant that wait; `put` refuses more with `QueueFullError`. None: any."""

    @property
    def lane(self) -> Lane:
        return Lane(at_once=self.at_once, tenant_at_once=self.tenant_at_once, tenant_waiting=self.tenant_waiting)


class DurableQueue:
    """Puts work and does it. There is one in a process at a time. `store` has the lease of this process. `kinds`: the kinds of
    work by name; work of other kinds is left to other processes. Raises `ConfigError` if the database is in memory or the extra
    `bots` is not installed."""

    def __init__(self, database_url: str, store: Store, kinds: Mapping[str, WorkKind]) -> None:
        self._store = store
        self._kinds = dict(kinds)
        self._engine = Engine(database_url, {name: kind.lane for name, kind in kinds.items()})
        self._tasks: dict[str, asyncio.Task[bytes]] = {}
        self._ended = asyncio.Event()
        """Set, and replaced, when a piece of work ends in this process."""
        self._watch: asyncio.Task[None] | None = None
        self._lease = 0

    async def open(self) -> None:
        await self._start()
        self._watch = asyncio.create_task(self._watch_others())

    async def close(self) -> None:
        """Stops the work of this process, which another one, or this one at its next start, continues."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        await self._stop()
        with suppress(StorageError):  # another process removes it
            await unregister(self._store, self._lease)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def put(
        self, kind: str, work_id: str, payload: bytes, *, delay: float = 0.0, tenant: str | None = None
    ) -> None:
        await self._put(kind, [(work_id, payload)], delay, tenant)

    async def put_many(self, kind: str, work: Sequence[tuple[str, bytes]], *, tenant: str | None = None) -> None:
        if work:
            await self._put(kind, work, 0.0, tenant)

    async def _put(self, kind: str, work: Sequence[tuple[str, bytes]], delay: float, tenant: str | None) -> None:
        if kind not in self._kinds:
            raise ConfigError(f"there is no kind of work {kind!r}; there are {', '.join(self._kinds)}")
        takes_turns = self._kinds[kind].tenant_at_once is not None
        if takes_turns and tenant is None:
            raise ConfigError(f"work of the kind {kind!r} has limits for each tenant, so it is put with a tenant")
        await asyncio.to_thread(self._engine.put, kind, work, delay, tenant if takes_turns else None)

    async def result(self, work_id: str, *, timeout: float | None = None) -> bytes:
        async with asyncio.timeout(timeout):
            while (end := await asyncio.to_thread(self._engine.ending, work_id)) is None:
                await wait_up_to(_POLL_SECONDS, self._ended)
        if end.result is None:
            raise RunError(f"the work {work_id} {end.problem}")
        return end.result

    async def cancel(self, work_id: str) -> None:
        await asyncio.to_thread(self._engine.cancel, [work_id])
        if (task := self._tasks.get(work_id)) is not None:
            task.cancel()

    async def given_up(self, work_ids: Sequence[str]) -> Sequence[str]:
        return await asyncio.to_thread(self._engine.over, work_ids)

    # --- work of this process ------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._lease = await self._store.lease()
        loop = asyncio.get_running_loop()

        def begin(kind: str, work_id: str, payload: bytes) -> Any:
            """Runs in DBOS's loop. Returns the future of a piece of work."""
            return asyncio.run_coroutine_threadsafe(self._do(kind, work_id, payload), loop)

        await asyncio.to_thread(self._engine.start, str(self._lease), begin)
        done = [name for name, kind in self._kinds.items() if kind.do is not None]
        if done:
            await register(self._store, self._lease, done)

    async def _stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.to_thread(self._engine.stop)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _do(self, kind: str, work_id: str, payload: bytes) -> bytes:
        """Does a piece of work. What ends without the lease is not reported: the work belongs to another process by then."""
        do = self._kinds[kind].do
        assert do is not None, "this process gets no such work"
        task = asyncio.ensure_future(do(payload))
        self._tasks[work_id] = task
        try:
            result = await task
        except StorageError:
            await self._hold_lease()
            raise
        finally:
            self._tasks.pop(work_id, None)
            self._ended.set()
            self._ended = asyncio.Event()
        await self._hold_lease()
        return result

    async def _hold_lease(self) -> None:
        if await self._store.lease() != self._lease:
            await asyncio.Event().wait()  # until `_stop` cancels it

    # --- work of others ------------------------------------------------------------------------------------------------

    async def _watch_others(self) -> None:
        """Recovers the work of dead processes, cancels what others cancelled, and removes old work, until it is cancelled."""
        cleaned = 0.0
        clock = asyncio.get_running_loop().time
        while True:
            try:
                if await self._store.lease() != self._lease:
                    log.warning("durable_work_restarts", lease=self._lease)
                    await self._stop()
                    await self._start()
                await self._recover()
                await self._cancel_cancelled()
                if clock() - cleaned > _CLEAN_SECONDS:
                    cleaned = clock()
                    await asyncio.to_thread(self._engine.clean, _KEEP_SECONDS)
                    await forget_dead(self._store)
            except Exception as error:  # noqa: BLE001  the outermost frame of the task, which must outlive any failure
                log.warning("durable_work_not_watched", error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _recover(self) -> None:
        others = await asyncio.to_thread(self._engine.executors, str(self._lease))
        alive = await asyncio.gather(*(self._store.holds(int(number)) for number in others))
        dead = [number for number, lives in zip(others, alive, strict=True) if not lives]
        if dead:
            count = await asyncio.to_thread(self._engine.recover, dead)
            log.info("durable_work_recovered", count=count, owners=",".join(dead))

    async def _cancel_cancelled(self) -> None:
        if self._tasks:
            ids = list(self._tasks)
            for work_id in await asyncio.to_thread(self._engine.over, ids):
                if (task := self._tasks.get(work_id)) is not None:
                    task.cancel()
