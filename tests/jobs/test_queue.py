"""Durable work: what is put is done once it can be, whatever ends meanwhile."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import signal
import tomllib
from pathlib import Path

import dbos
import pytest

from tests.databases import KINDS, url_of_kind
from toolcaddie.core.errors import ConfigError, RunError
from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of_kind(request, tmp_path / "data" / "toolcaddie.sqlite")


async def test_the_same_id_is_done_once_and_its_result_stays(url: str) -> None:
    done = []

    async def do(payload: bytes) -> bytes:
        done.append(payload)
        return payload + b"!"

    async with Database(url) as database:
        async with DurableQueue(url, database.store, {"echo": WorkKind(do=do)}) as queue:
            await queue.put("echo", "a", b"\x00\xff")
            await queue.put("echo", "a", b"other")
            assert await queue.result("a", timeout=10) == b"\x00\xff!"
        async with DurableQueue(url, database.store, {"echo": WorkKind(do=do)}) as queue:
            await queue.put_many("echo", [("a", b"other"), ("b", b"2")])
            assert [await queue.result(name, timeout=10) for name in "ab"] == [b"\x00\xff!", b"2!"]
    assert done == [b"\x00\xff", b"2"]


async def test_work_that_is_stopped_by_an_orderly_end_goes_on_at_the_next_start(url: str) -> None:
    begun = asyncio.Event()
    starts = 0

    async def do(payload: bytes) -> bytes:
        nonlocal starts
        starts += 1
        begun.set()
        if starts == 1:
            await asyncio.Event().wait()
        return b"done"

    for number in range(2):
        async with Database(url) as database, DurableQueue(url, database.store, {"slow": WorkKind(do=do)}) as queue:
            if number == 0:
                await queue.put("slow", "a", b"")
                await begun.wait()
            else:
                assert await queue.result("a", timeout=15) == b"done"
    assert starts == 2


async def test_a_failure_is_final_and_a_cancelled_piece_of_work_is_stopped(url: str) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def do(payload: bytes) -> bytes:
        if payload == b"bad":
            raise ValueError("no such thing")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return b""

    async with Database(url) as database, DurableQueue(url, database.store, {"work": WorkKind(do=do)}) as queue:
        await queue.put("work", "bad", b"bad")
        with pytest.raises(RunError, match="ValueError: no such thing"):
            await queue.result("bad", timeout=10)
        await queue.put("work", "slow", b"")
        await begun.wait()
        with pytest.raises(TimeoutError):
            await queue.result("slow", timeout=0.05)
        await queue.cancel("slow")
        await asyncio.wait_for(stopped.wait(), 10)
        with pytest.raises(RunError, match="was cancelled"):
            await queue.result("slow", timeout=10)
        await queue.put("work", "later", b"", delay=60)
        await queue.cancel("later")
        with pytest.raises(RunError, match="was cancelled"):
            await queue.result("later", timeout=10)
        assert await queue.given_up(["bad", "slow", "unknown"]) == ["bad", "slow"]
        with pytest.raises(RunError, match="was never put"):
            await queue.result("unknown", timeout=10)
        with pytest.raises(ConfigError, match="no kind of work 'other'"):
            await queue.put("other", "x", b"")


async def test_signals_log_and_event_loop_are_left_alone(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    async def do(payload: bytes) -> bytes:
        return str(id(asyncio.get_running_loop())).encode()

    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    handlers = list(logging.getLogger().handlers)
    async with Database(url) as database, DurableQueue(url, database.store, {"work": WorkKind(do=do)}) as queue:
        await queue.put("work", "a", b"")
        assert await queue.result("a", timeout=10) == str(id(asyncio.get_running_loop())).encode()
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    assert logging.getLogger().handlers == handlers
    assert capfd.readouterr() == ("", "")


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a database on disk"):
        DurableQueue("sqlite:///:memory:", None, {})  # type: ignore[arg-type]


def test_one_private_name_of_dbos_is_used_and_the_versions_that_may_be_installed_have_it() -> None:
    """If it fails after an update: `Engine.recover` needs another way to return work to its queue."""
    source = (ROOT / "toolcaddie" / "jobs" / "engine.py").read_text()
    assert set(re.findall(r"(?:dbos|DBOS|_client)\.(_\w+)", source)) == {"_recover_pending_workflows"}
    assert list(inspect.signature(dbos.DBOS._recover_pending_workflows).parameters) == ["executor_ids"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["bots"] == ["dbos>=3.4,<3.5"]
