"""Runs whose process is gone: settled by the next one, resumed from their last checkpoint, and never doing a call twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from tests.databases import change, database_url, locked, rows
from tests.engine.paying import pay
from toolcaddie.audit.trail import Trail
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import AuditError, LimitExceededError, ProviderError, RunNotFoundError, ToolcaddieError
from toolcaddie.core.events import CallIntended, RunEvent, RunFinished
from toolcaddie.core.presets import preset
from toolcaddie.core.run import Limits
from toolcaddie.core.storage import EventRecord, RunSummary
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database
from toolcaddie.storage.migrations.versions import s0001_first_tables
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

LEASE = 0.3
"""Short, so that a test does not wait."""
PATIENT = 2.0
"""Lease for processes that must notice a heartbeat every tenth of a second on a busy machine."""

PROCESS = """
import asyncio, sys
from pathlib import Path

from tests.engine import paying
from toolcaddie import Runtime
from toolcaddie.audit.trail import Trail
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, say

url, verb = sys.argv[1], sys.argv[3]
paying.paid, paying.waits = Path(sys.argv[2]), sys.argv[4] == "tool"


async def main():
    async with Database(url, lease=0.3) as database:
        async def hangs(request):
            await database.events.flush()
            paying.wait_here()
            return say("done")

        script = [hangs] if verb == "resume" else [call("pay", {"to": "ann"}, call_id="c1"), hangs]
        options = dict(sources=[paying.pay], trail=Trail(database.events), documents=database.store)
        runtime = Runtime(provider=ScriptedProvider(script), **options)
        try:
            await (runtime.resume("r", approvals={"c1": True}) if verb == "resume" else runtime.run("pay", run_id="r"))
        except ToolcaddieError as error:
            print(error, flush=True)


asyncio.run(main())
"""


class Child:
    """A process that runs or resumes the run `r`, as far as a `place`: in the tool, or while the model is asked."""

    def __init__(self, folder: Path, verb: str, place: str) -> None:
        command = [sys.executable, "-c", PROCESS, database_url(folder / "x.sqlite"), str(folder / "paid"), verb, place]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    async def __aenter__(self) -> Child:
        assert self.process.stdout is not None
        assert await asyncio.to_thread(self.process.stdout.readline) == "here\n"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self, signal_number: int = signal.SIGKILL) -> str:
        if self.process.returncode is None:
            self.process.send_signal(signal_number)
            return (await asyncio.to_thread(self.process.communicate, "go on\n"))[0]
        return ""


class AsksAlways:
    version = "1"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        return Decision(verdict="ask", rule="asks")


def stop_between_two_writes(pid: int, url: str) -> None:
    """Stops a process outside of transactions: within one it would hold locks."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        try:
            with locked(url, patience=0.05):
                return
        except OperationalError:
            os.kill(pid, signal.SIGCONT)


async def paused(folder: Path, asked: Any = pay) -> str:
    """A database with one run that waits for an approval of a call of `asked`; its URL."""
    url = database_url(folder / "x.sqlite")
    async with Database(url) as database:
        runtime, _ = runtime_over(
            database, call("pay", {"to": "ann"}, call_id="c1"), sources=[asked], policy=AsksAlways()
        )
        assert (await runtime.run("pay ann", run_id="r")).status == "pending"
    return url


@tool(name="pay", read_only=True)
def look(to: str) -> str:
    """Pay somebody, without an effect."""
    return f"paid {to}"


def runtime_over(database: Database, *script: Any, **options: Any) -> tuple[Runtime, ScriptedProvider]:
    provider = ScriptedProvider([*script])
    parts = {"sources": [pay], "trail": Trail(database.events), "documents": database.store, **options}
    return Runtime(provider=provider, **parts), provider


async def settled(database: Database, run_id: str = "r") -> RunSummary:
    await database.leases.own()
    with anyio.fail_after(20):
        while True:
            (run,) = [run for run in await database.events.runs() if run.run_id == run_id]
            if run.owner is None:
                return run
            await asyncio.sleep(0.02)


def kinds(events: object) -> list[str]:
    return [event.kind for event in events]  # type: ignore[attr-defined]


async def test_a_run_whose_process_was_killed_ends_as_failed_and_its_open_call_as_unknown(tmp_path: Path) -> None:
    async with Child(tmp_path, "run", "tool"), Database(database_url(tmp_path / "x.sqlite"), lease=LEASE) as database:
        (run,) = await database.events.runs()
        assert (run.status, run.owner is None) == ("running", False)
    async with Database(database_url(tmp_path / "x.sqlite"), lease=LEASE) as database:
        assert (await settled(database)).status == "failed"
        events = await database.events.events("r")
        assert kinds(events)[-3:] == ["call_intended", "call_unknown", "run_failed"]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert events[-2].data["id"] == events[-3].data["id"] == "c1"
        assert "process" in events[-1].data["error"]


async def test_a_run_killed_while_its_model_was_asked_has_no_unknown_call(tmp_path: Path) -> None:
    async with Child(tmp_path, "run", "model"):
        pass
    async with Database(database_url(tmp_path / "x.sqlite"), lease=LEASE) as database:
        assert (await settled(database)).status == "failed"
        assert kinds(await database.events.events("r"))[-3:] == ["call_finished", "model_asked", "run_failed"]


async def test_a_run_killed_in_the_middle_of_a_resume_is_resumed_from_its_last_checkpoint(tmp_path: Path) -> None:
    url = await paused(tmp_path)
    async with Child(tmp_path, "resume", "model"):
        pass
    async with Database(url, lease=LEASE) as database:
        assert (await settled(database)).status == "pending"
        runtime, provider = runtime_over(database, say("done"))
        done = await runtime.resume("r")
        assert (done.text, done.tool_calls) == ("done", ("pay",))
        assert provider.requests[-1].messages[-1].content == "paid ann"
        assert (await database.events.runs())[0].status == "completed"
        with pytest.raises(RunNotFoundError):
            await runtime.resume("r")
    assert (tmp_path / "paid").read_text() == "ann\n"


async def test_a_run_is_resumed_by_another_process_once_its_own_is_killed_and_no_call_is_repeated(
    tmp_path: Path,
) -> None:
    url = await paused(tmp_path)
    async with Child(tmp_path, "resume", "tool") as child, Database(url, lease=PATIENT) as database:
        runtime, provider = runtime_over(database, say("I will look."))
        with pytest.raises(RunNotFoundError, match="is being resumed"):
            await runtime.resume("r", approvals={"c1": True})
        (run,) = await database.events.runs()
        assert (run.status, run.owner is None) == ("running", False)
        await child.end()
        assert (await runtime.resume("r")).text == "I will look."  # waits until the other is known to be gone
        assert "not known" in provider.requests[-1].messages[-1].content
        recorded = kinds(await database.events.events("r"))
        assert recorded.count("call_unknown") == 1
        assert "call_finished" not in recorded
    assert (tmp_path / "paid").read_text() == "ann\n"


async def test_a_process_that_wakes_up_too_late_writes_nothing_of_its_runs(tmp_path: Path) -> None:
    async with (
        Child(tmp_path, "run", "tool") as child,
        Database(database_url(tmp_path / "x.sqlite"), lease=LEASE) as database,
    ):
        stop_between_two_writes(child.process.pid, database_url(tmp_path / "x.sqlite"))
        assert (await settled(database)).status == "failed"
        before = await database.events.events("r")
        assert "did not renew its lease" in await child.end(signal.SIGCONT)
        assert await database.events.events("r") == before


async def test_a_run_whose_end_was_not_recorded_gives_its_answer_again_without_another_model_call(
    tmp_path: Path,
) -> None:
    class FailsAtTheEnd:
        async def emit(self, event: RunEvent) -> None:
            if isinstance(event, RunFinished):
                raise AuditError("the disk is full")

    url = await paused(tmp_path, look)
    async with Database(url) as database:
        runtime, _ = runtime_over(database, say("done"), sources=[look], trail=FailsAtTheEnd())
        with pytest.raises(AuditError):
            await runtime.resume("r", approvals={"c1": True})
    async with Database(url) as database:
        runtime, provider = runtime_over(database)
        assert (await runtime.resume("r")).text == "done"
        assert not provider.requests
        assert (await database.events.runs())[0].status == "completed"
        with pytest.raises(RunNotFoundError):
            await runtime.resume("r")


async def test_runs_of_a_lost_lease_end_and_new_runs_go_on_under_another(tmp_path: Path) -> None:
    url, noted = database_url(tmp_path / "x.sqlite"), list[str]()

    def loses_the_lease(_: object) -> object:
        change(url, "delete from owners")
        return call("note", {"text": "late"})

    @tool
    def note(text: str) -> str:
        """Note something."""
        noted.append(text)
        return "noted"

    async with Database(url, lease=60) as database:
        script = [loses_the_lease, call("note", {"text": "in time"}), say("done")]
        runtime, _ = runtime_over(database, *script, sources=[note])
        with pytest.raises(AuditError, match="did not renew its lease"):
            await runtime.run("note it", run_id="late")
        assert noted == []
        assert (await runtime.run("note it", run_id="new")).text == "done"
        assert noted == ["in time"]
        assert kinds(await database.events.events("new"))[-1] == "run_finished"
        assert "call_intended" not in kinds(await database.events.events("late"))


async def test_a_running_run_of_an_older_version_is_settled_once(tmp_path: Path) -> None:
    url = database_url(tmp_path / "x.sqlite")
    engine = create_engine(url)
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        s0001_first_tables.upgrade()
    engine.dispose()
    older = """
        create table toolcaddie_schema (version_num varchar(32) not null primary key);
        insert into toolcaddie_schema values ('0001');
        insert into runs values ('r', 1.0, 'pay', 'running', 'ann', 'default', 0, 0, null);
        insert into events (run_id, seq, at, kind, data) values
          ('r', 1, 1.0, 'run_started', '{}'),
          ('r', 2, 1.0, 'call_intended', '{"id": "c1", "name": "pay", "arguments": "{}"}')
    """
    change(url, older)
    for _ in range(2):
        async with Database(url, lease=LEASE) as database:
            assert (await settled(database)).status == "failed"
            assert kinds(await database.events.events("r"))[2:] == ["call_unknown", "run_failed"]


async def test_a_database_that_closes_under_its_runs_leaves_none_of_them_running(tmp_path: Path) -> None:
    url = database_url(tmp_path / "x.sqlite")
    data = {"message": "pay", "principal": {"id": "ann"}, "preset": "default"}
    async with Database(url, lease=60) as database:
        database.events.append(EventRecord(run_id="r", seq=1, at=1.0, kind="run_started", data=data))
        await database.events.flush()
        assert (await database.events.runs())[0].owner == await database.leases.own()
    async with Database(url, lease=60) as database:
        (run,) = await database.events.runs()
        assert (run.status, run.owner) == ("failed", None)


async def test_a_call_that_is_cancelled_in_the_middle_ends_as_unknown(tmp_path: Path) -> None:
    began = asyncio.Event()

    @tool
    async def write() -> str:
        """Write."""
        began.set()
        await asyncio.sleep(60)
        return "written"

    async with Database(database_url(tmp_path / "x.sqlite")) as database:
        provider = ScriptedProvider([call("write", {})])
        runtime = Runtime(provider=provider, sources=[write], trail=Trail(database.events), documents=database.store)
        for job, run_id in ((runtime.run("write", run_id="a"), "a"), (runtime.call("write", {}, run_id="b"), "b")):
            began.clear()
            task = asyncio.ensure_future(job)
            await began.wait()
            task.cancel()
            await asyncio.wait({task})
            assert kinds(await database.events.events(run_id))[-2:] == ["call_unknown", "run_failed"]


async def test_a_run_whose_claim_could_not_be_released_can_still_be_resumed(tmp_path: Path) -> None:
    """The database is gone while the run fails, and there again when somebody resumes it."""
    url = await paused(tmp_path)

    def breaks(_: object) -> object:
        change(url, "alter table documents rename to away")
        raise ProviderError("the provider is down")

    async with Database(url, lease=LEASE) as database:
        runtime, _ = runtime_over(database, breaks, say("done"), sources=[look])
        with pytest.raises(ToolcaddieError):
            await runtime.resume("r", approvals={"c1": True})
        change(url, "alter table away rename to documents")
        assert (await runtime.resume("r", approvals={"c1": True})).text == "done"


@pytest.mark.parametrize("limit", ["calls", "tokens", "seconds"])
async def test_a_run_that_ends_at_a_limit_says_what_it_did(limit: str, tmp_path: Path) -> None:
    @tool(concurrent=False)
    async def pay(to: str) -> str:
        """Pay somebody."""
        if to == "slow":
            await asyncio.sleep(60)
        return f"paid {to}"

    limits = {"calls": Limits(calls=2), "tokens": Limits(tokens=1), "seconds": Limits(seconds=0.2)}[limit]
    third = {"to": "slow" if limit == "seconds" else "cat"}
    script = [calls(("pay", {"to": "ann"}), ("pay", {"to": "bob"})), call("pay", third), say("never")]
    async with Database(database_url(tmp_path / "x.sqlite")) as database:
        chosen = replace(preset("default"), limits=limits)
        runtime, _ = runtime_over(database, *script, sources=[pay], preset=chosen)
        with pytest.raises(LimitExceededError) as raised:
            await runtime.run("pay them", run_id="r")
        state = raised.value.state
        assert raised.value.limit == limit
        assert state.status == "failed"
        assert state.called[:2] == ("pay", "pay")
        assert [message.content for message in state.messages[-2:] if message.role == "tool"] != [] or state.pending
        failed = (await database.events.events("r"))[-1]
        assert (failed.kind, failed.data["calls"], failed.data["rounds"]) == ("run_failed", state.calls, state.rounds)
        assert (await database.events.runs())[0].calls == state.calls >= 2


async def test_a_call_that_was_about_to_run_is_unknown_even_if_its_intent_was_not_written(
    tmp_path: Path,
) -> None:
    """After a kill between the two writes, the state says that the call may have run, and the trail says nothing."""
    url = await paused(tmp_path)

    async with Database(url) as database:

        class StopsAtTheIntent(Trail):
            async def emit(self, event: RunEvent) -> None:
                if isinstance(event, CallIntended):
                    reached.set()
                    await asyncio.sleep(60)
                await super().emit(event)

        reached = asyncio.Event()
        runtime, _ = runtime_over(database, trail=StopsAtTheIntent(database.events))
        task = asyncio.ensure_future(runtime.resume("r", approvals={"c1": True}))
        await reached.wait()
        # The process is gone: nobody writes for it any more.
        copy = "select value, (select max(number) from owners) from documents where kind = 'run'"
        ((value, number),) = rows(url, copy)
        task.cancel()
        await asyncio.wait({task})
    change(
        url,
        f"update documents set value = {{blob:{value.hex()}}} where kind = 'run'",
        "delete from events where kind in ('run_failed', 'call_finished', 'call_unknown')",
        f"update runs set status = 'running', owner = {number}",
        f"insert into owners (number, beat, seconds, label, started) values ({number}, 1, 0, 'x process 1', 0)",
    )
    async with Database(url, lease=LEASE) as database:
        assert (await settled(database)).status == "pending"
        (unknown,) = [event for event in await database.events.events("r") if event.kind == "call_unknown"]
        assert (unknown.data["id"], unknown.data["name"]) == ("c1", "pay")
        runtime, provider = runtime_over(database, say("I will look."))
        assert (await runtime.resume("r")).text == "I will look."
        assert "not known" in provider.requests[-1].messages[-1].content
