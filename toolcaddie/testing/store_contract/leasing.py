"""Leases: who is alive, and that nobody else writes in their name."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable

from toolcaddie.core.errors import StorageError
from toolcaddie.ports import Store
from toolcaddie.testing.contract import Checks, ContractError, expect, expect_equal
from toolcaddie.testing.store_contract.jobs import KIND
from toolcaddie.testing.store_contract.subject import PATIENCE, Subject, ended, is_shared, line_of, opened, worker

CHECKS: Checks[Subject] = Checks()


def can_stop_processes(subject: Subject) -> bool:
    return is_shared(subject) and hasattr(signal, "SIGSTOP")


async def gone(store: Store, number: int) -> None:
    """Waits until that number holds no lease."""
    async with asyncio.timeout(PATIENCE):
        while await store.holds(number):  # which waits itself
            pass


async def refused(write: Awaitable[object], what: str) -> None:
    try:
        await write
    except StorageError:
        return
    raise ContractError(f"{what} under a lease that nobody holds succeeded; StorageError was expected")


@CHECKS.add()
async def a_process_keeps_its_number(subject: Subject) -> None:
    async with opened(subject) as store:
        number = await store.lease()
        expect_equal(await store.lease(), number, "the number of the same process")
        expect(await store.holds(number), "a living process does not hold its lease")
        expect(not await store.holds(number + 1_000), "a number that was never given is held")


@CHECKS.add()
async def writes_happen_under_a_lease_that_is_held(subject: Subject) -> None:
    async with opened(subject) as store:
        owner = await store.lease()
        await store.put(KIND, "a", b"1", owner=owner)
        expect(await store.compare_and_set(KIND, "a", b"2", expected=b"1", owner=owner), "an exchange under a lease")
        expect_equal(await store.append("log", [b"x"], owner=owner), 1, "the position of an entry under a lease")
        expect_equal(await store.get(KIND, "a"), b"2", "a document written under a lease")
        expect(await store.delete(KIND, "a", owner=owner), "a deletion under a lease")


@CHECKS.add()
async def nothing_is_written_under_a_lease_that_is_not_held(subject: Subject) -> None:
    async with opened(subject) as store:
        nobody = await store.lease() + 1_000
        await store.put(KIND, "a", b"1")
        await refused(store.put(KIND, "a", b"2", owner=nobody), "put")
        await refused(store.compare_and_set(KIND, "a", b"2", expected=b"1", owner=nobody), "compare_and_set")
        await refused(store.delete(KIND, "a", owner=nobody), "delete")
        await refused(store.append("log", [b"x"], owner=nobody), "append")
        expect_equal(await store.get(KIND, "a"), b"1", "a document after writes that were refused")
        expect_equal(await store.read("log"), [], "entries after an append that was refused")


@CHECKS.add(applies_to=is_shared)
async def stores_at_one_place_have_numbers_of_their_own_and_see_each_other(subject: Subject) -> None:
    place = subject.new_place()
    async with subject.opened(place) as one, subject.opened(place) as other:
        numbers = await one.lease(), await other.lease()
        expect(numbers[0] != numbers[1], f"two stores that are open have one number, {numbers[0]}")
        expect(await one.holds(numbers[1]) and await other.holds(numbers[0]), "one store does not see the other")


@CHECKS.add(applies_to=is_shared)
async def a_store_that_is_closed_gives_its_lease_up_for_good(subject: Subject) -> None:
    place = subject.new_place()
    numbers: list[int] = []
    for _ in range(3):
        async with subject.opened(place) as store:
            numbers.append(await store.lease())
            for number in numbers[:-1]:
                expect(not await store.holds(number), "a store that was closed still holds its lease")
                await refused(store.put(KIND, "a", b"x", owner=number), "put")
    expect_equal(len(set(numbers)), 3, "different numbers of three stores, one after another")


@CHECKS.add(applies_to=is_shared)
async def a_process_that_was_killed_loses_its_lease(subject: Subject) -> None:
    place = subject.new_place()
    async with subject.opened(place) as store:
        async with worker(subject, place, "hold") as process:
            number = int(await line_of(process))
            expect(await store.holds(number), "a living process does not hold its lease")
            process.kill()
            await ended(process)
        await gone(store, number)
        await refused(store.put(KIND, "a", b"x", owner=number), "put")
        expect(await store.lease() != number, "the number of a killed process was given again")


@CHECKS.add(applies_to=can_stop_processes)
async def a_process_that_wakes_up_too_late_writes_nothing(subject: Subject) -> None:
    place = subject.new_place()
    async with subject.opened(place) as store, worker(subject, place, "hold") as process:
        number = int(await line_of(process))
        while not await _lost_while_stopped(store, process.pid, number):
            pass
        assert process.stdin is not None
        process.stdin.write(b"\n")
        expect_equal(
            await line_of(process), "refused", "the write of a process that lost its lease while it stood still"
        )
        expect_equal(await store.get(KIND, "late"), None, "the document of a process that lost its lease")


async def _lost_while_stopped(store: Store, pid: int, number: int) -> bool:
    """Stops a process until its lease is gone. False: it stood still with a lock in its hand, so that no one could write."""
    await asyncio.sleep(0.1)  # past the write with which it took its lease, which is the likeliest one to be hit
    os.kill(pid, signal.SIGSTOP)
    try:
        await gone(store, number)
    except StorageError:
        return False
    finally:
        os.kill(pid, signal.SIGCONT)
    return True
