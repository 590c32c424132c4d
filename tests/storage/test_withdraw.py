"""An intent that could not be made durable in time announces nothing afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import InternalError

from tests.databases import ON_POSTGRESQL, locked
from toolcaddie.audit.trail import Trail
from toolcaddie.core.errors import AuditError
from toolcaddie.core.events import CallIntended
from toolcaddie.core.storage import EventRecord
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, calls

pytestmark = pytest.mark.anyio

INTENT = EventRecord(run_id="a", seq=1, at=1.0, kind="call_intended", data={"name": "pay"})
NOT_RUN = EventRecord(run_id="a", seq=2, at=2.0, kind="call_finished", data={"name": "pay", "error": "not_run"})
"""Row that is appended when an intent is withdrawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The writer, stopped in its first transaction that writes rows of the trail, before the commit."""

    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    failures: list[Exception] = field(default_factory=list)


@contextlib.contextmanager
def stopped_at_commit(database: Database) -> Iterator[Stopped]:
    stopped = Stopped()

    def stop(_: Connection) -> None:
        ours = database.events._writing  # the lease is renewed in transactions of its own
        if stopped.reached.is_set() or not ours:
            return
        stopped.reached.set()
        stopped.go.wait(10)
        if stopped.failures:
            raise stopped.failures[0]

    event.listen(database._writing, "commit", stop)
    try:
        yield stopped
    finally:
        stopped.go.set()


async def kinds(database: Database, run_id: str = "a") -> list[str]:
    return [record.kind for record in await database.events.events(run_id)]


async def test_a_row_that_waits_is_taken_back(database: Database) -> None:
    database.events.append(INTENT)
    database.events.withdraw(INTENT)
    database.events.append(NOT_RUN)
    assert await kinds(database) == ["call_finished"]


async def test_a_row_that_is_on_disk_stays(database: Database) -> None:
    database.events.append(INTENT)
    await database.events.flush()
    database.events.withdraw(INTENT)
    database.events.append(NOT_RUN)
    assert await kinds(database) == ["call_intended", "call_finished"]


async def test_a_row_that_is_being_written_stays_if_that_succeeds(file_url: str) -> None:
    async with Database(file_url) as database:
        await database.leases.own()
        with stopped_at_commit(database) as stopped:
            database.events.append(INTENT)
            waiting = asyncio.ensure_future(database.events.flush())
            await asyncio.to_thread(stopped.reached.wait, 10)
            waiting.cancel()
            database.events.withdraw(INTENT)
            database.events.append(NOT_RUN)
        assert await kinds(database) == ["call_intended", "call_finished"]


async def test_a_row_that_is_being_written_is_dropped_if_that_fails(file_url: str) -> None:
    async with Database(file_url) as database:
        await database.leases.own()
        with stopped_at_commit(database) as stopped:
            stopped.failures.append(InternalError("commit", {}, Exception("the disk went away")))
            database.events.append(INTENT)
            waiting = asyncio.ensure_future(database.events.flush())
            await asyncio.to_thread(stopped.reached.wait, 10)
            database.events.withdraw(INTENT)
            stopped.go.set()
            with contextlib.suppress(AuditError):  # unless this flush was behind the write that failed
                await waiting
        with contextlib.suppress(AuditError):  # writing failed last; that the call did not run is kept all the same
            database.events.append(NOT_RUN)
        await database.events.flush()
        assert await kinds(database) == ["call_finished"]


async def test_a_call_whose_caller_went_away_before_its_intent_was_written_is_not_recorded_as_intended(
    file_url: str,
) -> None:
    paid: list[str] = []

    @tool
    def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        return "paid"

    async with Database(file_url) as database:
        provider = ScriptedProvider([call("pay", {"to": "ann"})])
        runtime = Runtime(provider=provider, sources=[pay], trail=Trail(database.events))
        with locked(file_url), pytest.raises(TimeoutError):
            await asyncio.wait_for(runtime.run("pay ann", run_id="a"), 0.2)
        present = await kinds(database)
        if ON_POSTGRESQL:  # which waits for the lock amid a write, so the row may be on disk already
            present = [kind for kind in present if kind != "call_intended"]
        assert present[-3:] == ["call_decided", "call_finished", "run_failed"]
        await runtime.close()
    assert paid == []


async def test_calls_beside_one_whose_intent_failed_do_not_stay_open_in_the_trail(file_url: str) -> None:
    """Of two calls made together one is refused while the other's intent is written: that one has an end on record."""
    ran: list[int] = []

    @tool(concurrent=True)
    def write(number: int) -> str:
        """Write."""
        ran.append(number)
        return "written"

    async with Database(file_url) as database:
        trail, second = Trail(database.events), asyncio.Event()

        class RefusesTheFirst:
            async def emit(self, happened: Any) -> None:
                if isinstance(happened, CallIntended) and happened.call.id == "one":
                    await second.wait()
                    raise AuditError("refused")
                if isinstance(happened, CallIntended):
                    second.set()
                await trail.emit(happened)

        provider = ScriptedProvider([calls(("write", {"number": 1}), ("write", {"number": 2}), ids=("one", "two"))])
        runtime = Runtime(provider=provider, sources=[write], trail=RefusesTheFirst())
        with pytest.raises(AuditError, match="refused"):
            await runtime.run("write", run_id="a")
        rows = [record for record in await database.events.events("a") if record.data.get("id") == "two"]
        assert [(row.kind, row.data.get("error")) for row in rows[1:]] == [
            ("call_intended", None),
            ("call_finished", "not_run"),
        ]
        await runtime.close()
    assert ran == []
