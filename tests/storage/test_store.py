from __future__ import annotations

import asyncio

import pytest

from tests.databases import rows
from tests.storage.conftest import Clock
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio


async def test_a_document_is_found_under_its_kind_and_key_only(database: Database) -> None:
    await database.store.put("run", "a", b"\x00\xff state")
    assert await database.store.get("run", "a") == b"\x00\xff state"
    assert await database.store.get("conversation", "a") is None
    assert await database.store.get("run", "b") is None


async def test_the_last_put_wins_and_sets_the_time_anew(database: Database, clock: Clock) -> None:
    await database.store.put("run", "a", b"first", ttl=10)
    await database.store.put("run", "a", b"second")
    clock.now += 1000
    assert await database.store.get("run", "a") == b"second"


async def test_delete_says_whether_there_was_something(database: Database) -> None:
    await database.store.put("run", "a", b"x")
    assert await database.store.delete("run", "a")
    assert not await database.store.delete("run", "a")
    assert await database.store.get("run", "a") is None


async def test_an_expired_document_is_gone(database: Database, clock: Clock) -> None:
    await database.store.put("run", "a", b"x", ttl=60)
    clock.now += 59
    assert await database.store.get("run", "a") == b"x"
    clock.now += 1
    assert await database.store.get("run", "a") is None


async def test_expired_documents_are_swept_by_later_writes(file_url: str, clock: Clock) -> None:
    async with Database(file_url, clock=clock, steady=clock) as database:
        for number in range(50):
            await database.store.put("run", str(number), b"x", ttl=10)
        clock.now += 3600
        await database.store.put("run", "last", b"x")
    assert rows(file_url, "select key from documents") == [("last",)]


async def test_documents_survive_a_restart(file_url: str) -> None:
    async with Database(file_url) as database:
        await database.store.put("run", "a", b"x")
    async with Database(file_url) as database:
        assert await database.store.get("run", "a") == b"x"


async def test_many_puts_at_once_all_count(database: Database) -> None:
    await asyncio.gather(*(database.store.put("run", str(number), b"%d" % number) for number in range(300)))
    found = await asyncio.gather(*(database.store.get("run", str(number)) for number in range(300)))
    assert found == [b"%d" % number for number in range(300)]


async def test_many_are_read_at_once_and_only_the_live_ones_of_their_kind(database: Database, clock: Clock) -> None:
    await database.store.put("run", "a", b"1")
    await database.store.put("run", "b", b"2", ttl=10)
    await database.store.put("conversation", "c", b"3")
    assert await database.store.get_many("run", ["a", "b", "c", "a"]) == {"a": b"1", "b": b"2"}
    clock.now += 10
    assert await database.store.get_many("run", ["a", "b"]) == {"a": b"1"}
    assert await database.store.get_many("run", []) == {}


async def test_many_are_written_at_once_and_replace_what_was_there(database: Database, clock: Clock) -> None:
    await database.store.put("vector", "7", b"old")
    await database.store.put_many("vector", {str(number): b"%d" % number for number in range(3_000)}, ttl=10)
    await database.store.put_many("vector", {})
    found = await database.store.get_many("vector", [str(number) for number in range(3_000)])
    assert found == {str(number): b"%d" % number for number in range(3_000)}
    clock.now += 10
    assert await database.store.get("vector", "7") is None


async def test_more_keys_than_a_statement_takes_are_read_too(database: Database) -> None:
    for number in (0, 700, 2_999):
        await database.store.put("run", str(number), b"%d" % number)
    found = await database.store.get_many("run", (str(number) for number in range(3_000)))
    assert found == {"0": b"0", "700": b"700", "2999": b"2999"}


async def test_documents_in_memory_are_read_many_at_once_too() -> None:
    documents = MemoryStore()
    await documents.put("run", "a", b"1")
    await documents.put("run", "b", b"2", ttl=0)
    assert await documents.get_many("run", ["a", "b", "c", "a"]) == {"a": b"1"}


async def test_a_scan_gives_the_documents_of_a_kind_in_the_order_of_their_keys_page_by_page(database: Database) -> None:
    for key in ("acme/2", "acme/10", "acme/1", "umbrella/1"):
        await database.store.put("approval", key, key.encode())
    await database.store.put("run", "acme/9", b"another kind")
    page = await database.store.scan("approval", prefix="acme/", limit=2)
    assert [document.key for document in page.documents] == ["acme/1", "acme/10"]
    rest = await database.store.scan("approval", prefix="acme/", limit=2, cursor=page.cursor)
    assert [(document.key, document.value, rest.cursor) for document in rest.documents] == [("acme/2", b"acme/2", None)]


async def test_a_log_is_read_in_the_order_of_appending(database: Database) -> None:
    assert await database.store.append("audit", [b"a", b"b"]) == 2
    assert await database.store.append("audit", [b"c"]) == 3
    assert await database.store.append("other", []) == 0
    entries = await database.store.read("audit", after=1)
    assert [(entry.position, entry.value) for entry in entries] == [(2, b"b"), (3, b"c")]
