"""Checks of documents: a document can be read from the moment it is written until it is replaced, deleted or expired.

Part of the contract suite of stores (`store_contract`); the name of each function is printed as the promise that it checks.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from toolcaddie.core.errors import StorageError
from toolcaddie.testing.contract import Checks, ContractError, expect, expect_equal
from toolcaddie.testing.store_contract.jobs import KIND, increment
from toolcaddie.testing.store_contract.subject import Subject, ended, is_shared, line_of, opened, worker

CHECKS: Checks[Subject] = Checks()

ODD_KEYS = (
    *("", " ", "a ", "A", "a", "a%", "a_", "a*", "a'b", 'a"b', "a\\b", "a/b", "a\nb", "\x7f"),
    *("a\0", "a\0b", "a\1", "a\1\1", "a\1\2", "a\2", "\0", "\0\0"),
    *("\u00e9", "e\u0301", "\ud7ff", "\ue000", "\uffff", "\U0001f3cc", "\U0010ffff", "\U0010ffff" * 512, "k" * 512),
)
"""Keys that careless code confuses with each other, or cannot store."""


@CHECKS.add()
async def a_value_is_under_its_kind_and_key_only(subject: Subject) -> None:
    async with opened(subject) as store:
        await store.put(KIND, "a", b"value")
        expect_equal(await store.get(KIND, "a"), b"value", "the document that was put")
        expect_equal(await store.get("another", "a"), None, "the same key of another kind")
        expect_equal(await store.get(KIND, "b"), None, "another key")


@CHECKS.add()
async def a_later_put_replaces_the_value_and_its_time_to_live(subject: Subject) -> None:
    async with opened(subject) as store:
        await store.put(KIND, "a", b"first", ttl=0.2)
        await store.put(KIND, "a", b"second")
        await subject.pass_time(0.4)
        expect_equal(await store.get(KIND, "a"), b"second", "a document put again without a time to live")


@CHECKS.add()
async def an_expired_document_is_gone_for_every_verb(subject: Subject) -> None:
    async with opened(subject) as store:
        for key in ("get", "delete", "set", "renew"):
            await store.put(KIND, key, b"x", ttl=0.2)
        await store.put_many(KIND, {"many": b"x"}, ttl=0.2)
        await store.compare_and_set(KIND, "exchanged", b"x", expected=None, ttl=0.2)
        await store.put(KIND, "lasting", b"x", ttl=3_600)
        await subject.pass_time(0.4)
        expect_equal(await store.get(KIND, "get"), None, "get of an expired document")
        there = await store.get_many(KIND, ["get", "many", "exchanged", "lasting"])
        expect_equal(there, {"lasting": b"x"}, "get_many of expired documents and one that is not")
        expect(not await store.delete(KIND, "delete"), "delete of an expired document returns True")
        exchanged = await store.compare_and_set(KIND, "set", b"y", expected=b"x")
        expect(not exchanged, "compare_and_set finds an expired value equal to the expected one")
        renewed = await store.compare_and_set(KIND, "renew", b"y", expected=None)
        expect(renewed, "compare_and_set refuses to write where a document has expired")
        expect_equal(await store.get(KIND, "renew"), b"y", "a document written where one had expired")
        page = await store.scan(KIND)
        expect_equal([document.key for document in page.documents], ["lasting", "renew"], "scan after an expiry")


@CHECKS.add()
async def delete_says_whether_there_was_one(subject: Subject) -> None:
    async with opened(subject) as store:
        await store.put(KIND, "a", b"x")
        expect(await store.delete(KIND, "a"), "delete of a document that exists returns False")
        expect(not await store.delete(KIND, "a"), "delete of a document that does not exist returns True")
        expect_equal(await store.get(KIND, "a"), None, "a deleted document")


@CHECKS.add()
async def any_bytes_are_a_value(subject: Subject) -> None:
    values = {"empty": b"", "all": bytes(range(256)), "big": bytes(range(256)) * 16_384}
    async with opened(subject) as store:
        for key, value in values.items():
            await store.put(KIND, key, value)
            expect(
                await store.get(KIND, key) == value, f"get returns other bytes than those that were put (value: {key})"
            )
        exchanged = await store.compare_and_set(KIND, "big", b"", expected=values["big"])
        expect(exchanged, "compare_and_set does not find a value of four megabytes equal to itself")


@CHECKS.add()
async def any_text_of_up_to_512_characters_is_a_key(subject: Subject) -> None:
    async with opened(subject) as store:
        for number, key in enumerate(ODD_KEYS):
            await store.put(KIND, key, b"%d" % number)
        expected = {key: b"%d" % number for number, key in enumerate(ODD_KEYS)}
        expect_equal(await store.get_many(KIND, ODD_KEYS), expected, "documents under odd keys")
        for key, value in expected.items():
            expect_equal(await store.get(KIND, key), value, f"the document under {key[:20]!a}")


@CHECKS.add()
async def a_key_that_is_too_long_is_refused(subject: Subject) -> None:
    async with opened(subject) as store:
        try:
            await store.put(KIND, "k" * 513, b"x")
        except StorageError:
            return
        raise ContractError("a key of 513 characters was accepted; StorageError was expected")


@CHECKS.add()
async def many_are_read_and_written_as_one_would_be(subject: Subject) -> None:
    values = {f"{number}": b"%d" % number for number in range(1_200)}
    async with opened(subject) as store:
        await store.put(KIND, "7", b"old")
        await store.put_many(KIND, values)
        await store.put_many(KIND, {})
        expect(await store.get_many(KIND, [*values, "7", "none"]) == values, "documents written together differ")
        expect_equal(await store.get_many(KIND, []), {}, "get_many of nothing")


@CHECKS.add()
async def many_are_written_all_or_none(subject: Subject) -> None:
    async with opened(subject) as store:
        try:
            await store.put_many(KIND, {"a": b"x", "k" * 513: b"x"})
        except StorageError:
            expect_equal(await store.get(KIND, "a"), None, "a document written with one that was refused")
            return
        raise ContractError("put_many accepted a key of 513 characters; StorageError was expected")


@CHECKS.add()
async def compare_and_set_writes_only_over_the_expected_value(subject: Subject) -> None:
    async with opened(subject) as store:
        expect(await store.compare_and_set(KIND, "a", b"1", expected=None), "refused, although no document was there")
        expect(
            not await store.compare_and_set(KIND, "a", b"2", expected=None),
            "wrote where no document was expected and one was there",
        )
        expect(
            not await store.compare_and_set(KIND, "a", b"2", expected=b"0"),
            "wrote over another value than the expected one",
        )
        expect_equal(await store.get(KIND, "a"), b"1", "the value after two refusals")
        expect(
            await store.compare_and_set(KIND, "a", b"2", expected=b"1"),
            "refused, although the expected value was there",
        )
        expect_equal(await store.get(KIND, "a"), b"2", "the value after an exchange")
        expect(
            not await store.compare_and_set(KIND, "b", b"1", expected=b"0"),
            "wrote where a value was expected and no document was there",
        )
        expect_equal(await store.get(KIND, "b"), None, "the document where a value was expected and none was there")


@CHECKS.add()
async def of_several_at_once_one_exchange_succeeds(subject: Subject) -> None:
    async with opened(subject) as store:
        exchanges = (store.compare_and_set(KIND, "a", b"%d" % n, expected=None) for n in range(20))
        expect_equal(sum(await asyncio.gather(*exchanges)), 1, "successes of 20 exchanges at once")
        await asyncio.gather(*(increment(store, "counter", "5") for _ in range(10)))
        expect_equal(await store.get(KIND, "counter"), b"50", "a number to which ten tasks added 1 five times each")


@CHECKS.add(applies_to=is_shared)
async def of_several_stores_at_one_place_one_exchange_succeeds(subject: Subject) -> None:
    place = subject.new_place()
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(subject.opened(place)) for _ in range(3)]
        for key in map(str, range(20)):
            exchanges = (
                store.compare_and_set(KIND, key, b"%d" % number, expected=None) for number, store in enumerate(stores)
            )
            expect_equal(sum(await asyncio.gather(*exchanges)), 1, "successful exchanges of three stores for one key")


@CHECKS.add(applies_to=is_shared)
async def stores_that_write_the_same_keys_in_different_orders_all_succeed(subject: Subject) -> None:
    place, keys = subject.new_place(), [f"{number}" for number in range(40)]
    async with subject.opened(place) as one, subject.opened(place) as other:
        for _ in range(3):
            await asyncio.gather(
                *(one.put(KIND, key, b"one") for key in keys),
                *(other.put(KIND, key, b"other") for key in reversed(keys)),
                one.put_many(KIND, dict.fromkeys(keys, b"one")),
                other.put_many(KIND, dict.fromkeys(reversed(keys), b"other")),
            )
        expect_equal(set(await one.get_many(KIND, keys)), set(keys), "keys after two stores wrote all of them")


@CHECKS.add(applies_to=is_shared)
async def processes_that_raise_one_number_lose_no_step(subject: Subject) -> None:
    place, steps = subject.new_place(), 20
    async with subject.opened(place) as store, AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(worker(subject, place, "increment", "counter", str(steps)))
            for _ in range(2)
        ]
        await increment(store, "counter", str(steps))
        expect_equal([await ended(each) for each in workers], [0, 0], "exit statuses of two other processes")
        expect_equal(await store.get(KIND, "counter"), b"%d" % (3 * steps), "the number to which three processes added")


@CHECKS.add(applies_to=is_shared)
async def what_was_written_together_is_whole_when_its_process_is_killed(subject: Subject) -> None:
    place = subject.new_place()
    async with subject.opened(place) as store:
        async with worker(subject, place, "write_pairs") as process:
            await line_of(process)
            while int(await store.get(KIND, "left") or b"0") < 3:
                pass
            process.kill()
            await ended(process)
        left, right = await store.get(KIND, "left"), await store.get(KIND, "right")
        expect(left == right, f"of two documents written together one is {left!r}, the other {right!r}")


@CHECKS.add(applies_to=is_shared)
async def documents_are_there_when_the_store_is_opened_again(subject: Subject) -> None:
    place = subject.new_place()
    async with subject.opened(place) as store:
        await store.put(KIND, "a", b"x")
    async with subject.opened(place) as store:
        expect_equal(await store.get(KIND, "a"), b"x", "a document after the store was closed and opened")
