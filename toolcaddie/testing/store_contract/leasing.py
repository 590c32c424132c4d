"""Checks of leases: a lease shows that a process is alive, and nobody writes under a lease that has ended.

A lease is a number that the store gives to a process; the process holds it while it is alive. Part of the contract suite of
stores (`store_contract`); the name of each function is printed as the promise that it checks.
"""

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
    """Returns whether the store is shared and this system can stop a process and continue it later."""
    return is_shared(subject) and hasattr(signal, "SIGSTOP")


async def gone(store: Store, number: int) -> None:
    """Waits until the lease of this number has ended."""
    async with asyncio.timeout(PATIENCE):
        while await store.holds(number):  # `holds` itself waits, up to the length of a lease
            pass


async def refused(write: Awaitable[object], what: str) -> None:
    """Raises `ContractError` unless the store refuses a write. `what`: the name of the method in the error."""
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
        expect(not await store.holds(number + 1_000), "a lease that was never given is held")


@CHECKS.add()
async def writes_happen_under_a_lease_that_is_held(subject: Subject) -> None:
    async with opened(subject) as store:
        owner = await store.lease()
        await store.put(KIND, "a", b"1", owner=owner)
        expect(
            await store.compare_and_set(KIND, "a", b"2", expected=b"1", owner=owner),
            "compare_and_set under a lease that is held returned False",
        )
        expect_equal(await store.append("log", [b"x"], owner=owner), 1, "the position of an entry under a lease")
        expect_equal(await store.get(KIND, "a"), b"2", "a document written under a lease")
        expect(await store.delete(KIND, "a", owner=owner), "delete under a lease that is held returned False")


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
        expect(numbers[0] != numbers[1], f"two stores that are open have the same lease, {numbers[0]}")
        expect(
            await one.holds(numbers[1]) and await other.holds(numbers[0]),
            "one store does not see that the other one holds its lease",
        )


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
    expect_equal(len(set(numbers)), 3, "the number of different leases of three stores, opened one after another")


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
        expect(await store.lease() != number, "the lease of a killed process was given to another one")


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
            await line_of(process), "refused", "the write of a process that lost its lease while it was stopped"
        )
        expect_equal(await store.get(KIND, "late"), None, "the document of a process that lost its lease")


async def _lost_while_stopped(store: Store, pid: int, number: int) -> bool:
    """Stops a process until its lease has ended. Returns False if the process held a lock when it was stopped: nobody could
    write."""
    await asyncio.sleep(0.1)  # so that the process is not stopped while it writes its lease
    os.kill(pid, signal.SIGSTOP)
    try:
        await gone(store, number)
    except StorageError:
        return False
    finally:
        os.kill(pid, signal.SIGCONT)
    return True
