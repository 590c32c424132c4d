"""Checks of logs: entries stay in the order in which they were appended, also when others append at the same time.

Part of the contract suite of stores (`store_contract`); the name of each function is printed as the promise that it checks.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from toolcaddie.testing.contract import Checks, expect, expect_equal
from toolcaddie.testing.store_contract.subject import Subject, ended, is_shared, opened, worker

CHECKS: Checks[Subject] = Checks()

STREAM = "log\0of a \U0001f3cc"


@CHECKS.add()
async def entries_are_read_in_the_order_of_appending(subject: Subject) -> None:
    async with opened(subject) as store:
        expect_equal(await store.append(STREAM, [b"a", b"b"]), 2, "the position of the last of two entries")
        expect_equal(
            await store.append(STREAM, [bytes(range(256)) * 4_096, b""]), 4, "the position of the fourth entry"
        )
        expect_equal(await store.append(STREAM, []), 4, "the position after appending nothing")
        expect_equal(await store.append("another", [b"x"]), 1, "the position of the first entry of another stream")
        entries = await store.read(STREAM)
        expect_equal([entry.position for entry in entries], [1, 2, 3, 4], "positions")
        expect_equal([entries[0].value, entries[1].value, entries[3].value], [b"a", b"b", b""], "values")
        expect(
            entries[2].value == bytes(range(256)) * 4_096,
            "an entry of a megabyte was read with other bytes than those appended",
        )
        expect_equal([entry.value for entry in await store.read("another")], [b"x"], "entries of another stream")


@CHECKS.add()
async def reading_continues_after_a_position(subject: Subject) -> None:
    async with opened(subject) as store:
        await store.append(STREAM, [b"%d" % number for number in range(1, 8)])
        entries = await store.read(STREAM, after=2, limit=3)
        expect_equal([(entry.position, entry.value) for entry in entries], [(3, b"3"), (4, b"4"), (5, b"5")], "entries")
        expect_equal(await store.read(STREAM, after=7), [], "entries after the last position")
        expect_equal(await store.read("none"), [], "entries of a stream that was never written")


@CHECKS.add()
async def appends_at_once_are_not_mixed(subject: Subject) -> None:
    async with opened(subject) as store:
        batches = [[f"{name} {half}".encode() for half in ("a", "b", "c")] for name in range(20)]
        ends = await asyncio.gather(*(store.append(STREAM, batch) for batch in batches))
        entries = await store.read(STREAM)
        expect_equal([entry.position for entry in entries], list(range(1, 61)), "positions of 60 entries")
        for end, batch in zip(ends, batches, strict=True):
            values = [entry.value for entry in entries[end - 3 : end]]
            expect_equal(values, batch, f"the entries of the append that ended at position {end}")


@CHECKS.add(applies_to=is_shared)
async def a_reader_misses_nothing_of_what_several_processes_append(subject: Subject) -> None:
    place, times = subject.new_place(), 40
    async with subject.opened(place) as store, AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(worker(subject, place, "append", "shared", name, str(times)))
            for name in ("one", "two")
        ]
        waiting = [asyncio.create_task(ended(each)) for each in workers]
        values: list[bytes] = []
        over = False
        while True:
            entries = await store.read("shared", after=len(values), limit=7)
            expected = list(range(len(values) + 1, len(values) + len(entries) + 1))
            expect_equal([entry.position for entry in entries], expected, "positions after the last one that was read")
            values += [entry.value for entry in entries]
            if not entries and over:
                break
            over = all(task.done() for task in waiting)
            await asyncio.sleep(0)
        expect_equal([await task for task in waiting], [0, 0], "exit statuses of two other processes")
    for name in ("one", "two"):
        own = [value.decode() for value in values if value.startswith(name.encode())]
        expected_values = [f"{name} {number} {half}" for number in range(times) for half in ("a", "b")]
        expect_equal(own, expected_values, f"entries of process {name}")
    pairs = [values[start : start + 2] for start in range(0, len(values), 2)]
    expect(
        all(first[:-1] == second[:-1] for first, second in pairs),
        "entries of another append are between two entries of one append",
    )


@CHECKS.add(applies_to=is_shared)
async def entries_are_there_when_the_store_is_opened_again(subject: Subject) -> None:
    place = subject.new_place()
    async with subject.opened(place) as store:
        await store.append(STREAM, [b"a"])
    async with subject.opened(place) as store:
        expect_equal(await store.append(STREAM, [b"b"]), 2, "the position of the next entry after opening again")
        expect_equal([entry.value for entry in await store.read(STREAM)], [b"a", b"b"], "entries after opening again")
