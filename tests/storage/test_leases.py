"""Leases tell which processes live, whatever their clocks, event loops and disks do meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from tests.databases import change, database_url, locked, rows
from toolcaddie.core.errors import RunTakenError, StorageError
from toolcaddie.core.storage import EventRecord
from toolcaddie.sources.functions.threads import Threads
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio

LEASE = 0.3
"""Short, so that a test does not wait; three looks of a tenth of a second."""
PATIENT = 1.5
"""Of who must see that a process lives which moves its beat every tenth of a second, on a machine that is busy."""

OWNS_UNTIL_KILLED = """
import asyncio, sys, time
from toolcaddie.storage.database import Database

async def main():
    async with Database(sys.argv[1], lease=float(sys.argv[2])) as database:
        print(await database.leases.own(), flush=True)
        if "stalled" in sys.argv:
            time.sleep(60)  # the event loop stands; the lease must not
        await asyncio.sleep(60)

asyncio.run(main())
"""


def another_process(url: str, *words: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-c", OWNS_UNTIL_KILLED, url, str(LEASE), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


async def test_every_process_has_a_number_of_its_own_that_is_never_given_again(file_url: str) -> None:
    numbers = []
    for _ in range(3):
        async with Database(file_url) as database:
            numbers.append(await database.leases.own())
            assert await database.leases.own() == numbers[-1]
    assert sorted(set(numbers)) == numbers


async def test_a_process_that_ends_in_order_gives_its_lease_up_at_once(file_url: str) -> None:
    async with Database(file_url, lease=60) as first:
        number = await first.leases.own()
    async with Database(file_url, lease=60) as second:
        assert not await second.leases.holds(number)


async def test_a_process_whose_event_loop_stands_still_keeps_its_lease(file_url: str) -> None:
    async with Database(file_url, lease=PATIENT) as database:
        process, number = another_process(file_url, "stalled")
        try:
            for _ in range(3):
                assert await database.leases.holds(number)
                await asyncio.sleep(PATIENT / 3)
        finally:
            process.kill()
            process.communicate()


async def test_a_killed_process_is_gone_after_the_length_of_its_lease(file_url: str) -> None:
    async with Database(file_url, lease=LEASE) as database:
        process, number = another_process(file_url)
        assert await database.leases.holds(number)
        process.kill()
        process.communicate()
        with anyio.fail_after(20):
            while await database.leases.holds(number):
                pass


async def test_the_age_of_a_lease_grows_until_its_process_renews_it(file_url: str) -> None:
    async with Database(file_url, lease=LEASE) as database, Database(file_url, lease=60) as slow:
        own, other = await database.leases.own(), await slow.leases.own()
        with anyio.fail_after(20):
            while (first := database.leases.ages().get(other)) is None:
                await database.leases.owners()
            while database.leases.ages()[other] < first + LEASE:
                await database.leases.owners()
        assert 0 <= database.leases.ages()[own] < database.leases.ages()[other]


async def test_two_databases_of_one_process_see_each_other_living(file_url: str) -> None:
    async with Database(file_url, lease=PATIENT) as one, Database(file_url, lease=LEASE) as other:
        assert await one.leases.holds(await other.leases.own())
        assert await other.leases.holds(await one.leases.own())


async def test_an_owner_with_a_longer_lease_is_given_the_time_it_asked_for(file_url: str) -> None:
    async with Database(file_url, lease=60) as slow, Database(file_url, lease=0.03) as hasty:
        number = await slow.leases.own()
        assert await hasty.leases.holds(number)


async def test_a_database_that_somebody_else_holds_locked_costs_nobody_a_lease(file_url: str) -> None:
    async with Database(file_url, lease=LEASE) as one, Database(file_url, lease=LEASE) as other:
        numbers = await one.leases.own(), await other.leases.own()
        with locked(file_url) as unlock:
            threading.Timer(LEASE * 4, unlock).start()
            await asyncio.sleep(LEASE * 6)
        assert (await one.leases.own(), await other.leases.own()) == numbers


async def test_who_has_lost_its_lease_writes_nothing_under_it_and_goes_on_with_another(file_url: str) -> None:
    async with Database(file_url, lease=LEASE) as database:
        lost = await database.leases.own()
        change(file_url, "delete from owners")
        with pytest.raises(StorageError, match="did not renew its lease"):
            await database.store.put("run", "a", b"too late", owner=lost)
        with pytest.raises(StorageError, match="did not renew its lease"):
            await database.store.compare_and_set("run", "a", b"too late", expected=None, owner=lost)
        assert await database.store.get("run", "a") is None
        number = await database.leases.own()
        assert number > lost
        await database.store.put("run", "a", b"in time", owner=number)
        assert not await database.leases.holds(lost)


async def test_a_call_does_not_begin_in_a_process_that_stood_still_after_its_intent(file_url: str) -> None:
    acted, calls = list[int](), Threads[None]()
    async with Database(file_url, lease=PATIENT) as database:
        database.events.append(EventRecord(run_id="r", seq=1, at=0.0, kind="run_started", data={}))
        await database.events.flush("r")
        await calls.run(lambda: acted.append(1))
        await database.events.flush("r")
        await asyncio.to_thread(database.leases.close)  # as if this process stood still, it renews its lease no more
        await asyncio.sleep(PATIENT)
        with pytest.raises(RunTakenError):
            await calls.run(lambda: acted.append(2))
        await calls.run(lambda: acted.append(3))  # a call that changes nothing needs no intent, and no lease
    assert acted == [1, 3]


async def test_a_look_at_the_database_takes_no_lease(file_url: str) -> None:
    async with Database(file_url) as database:
        await database.events.runs()
        await database.store.put("draft", "a", b"x")
    assert rows(file_url, "select count(*) from owners") == [(0,)]


@pytest.mark.parametrize("kind", ["file", "in memory", "no database"])
async def test_of_several_who_swap_one_value_one_does(kind: str, tmp_path: Path) -> None:
    url = database_url(tmp_path / "x.sqlite") if kind == "file" else "sqlite:///:memory:"
    async with Database(url) as database:
        documents = MemoryStore() if kind == "no database" else database.store
        owner = await documents.lease()
        assert await documents.holds(owner)
        assert not await documents.holds(owner + 1_000)
        swaps = (documents.compare_and_set("run", "a", b"%d" % n, expected=None, owner=owner) for n in range(5))
        assert sorted(await asyncio.gather(*swaps)) == [False, False, False, False, True]
        now = await documents.get("run", "a")
        assert await documents.compare_and_set("run", "a", b"next", expected=now)
        assert not await documents.compare_and_set("run", "a", b"late", expected=now)
        assert await documents.get("run", "a") == b"next"
        assert await documents.delete("run", "a", owner=owner)
