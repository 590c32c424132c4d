"""Values that may be lost, under one contract, and the bounds of those in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tests.storage.conftest import Clock
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.storage import CacheLevel
from toolcaddie.ports import CacheStore
from toolcaddie.storage.cache import MemoryCache, StoreCache
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "documents"])
async def store(request: pytest.FixtureRequest, file_url: str, clock: Clock) -> AsyncIterator[CacheStore]:
    async with Database(file_url, clock=clock) as database:
        yield MemoryCache(clock=clock) if request.param == "memory" else StoreCache(database.store)


async def test_what_was_put_is_there_and_the_last_one_wins(store: CacheStore) -> None:
    assert await store.get("a") is None
    assert await store.put("a", b"1", ttl=10)
    assert await store.put("a", b"\x00\xff", ttl=10)
    assert await store.put("b", b"", ttl=10)
    assert (await store.get("a"), await store.get("b")) == (b"\x00\xff", b"")


async def test_it_is_gone_when_its_time_is_over(store: CacheStore, clock: Clock) -> None:
    await store.put("a", b"1", ttl=60)
    clock.now += 59
    assert await store.get("a") == b"1"
    clock.now += 1
    assert await store.get("a") is None


@pytest.mark.parametrize(
    "make",
    [
        lambda database: MemoryCache(max_bytes=80),
        lambda database: StoreCache(database.store, max_value_bytes=10),
    ],
)
async def test_a_value_that_is_too_large_is_refused(make: Callable[[Database], CacheStore], database: Database) -> None:
    store = make(database)
    assert await store.put("a", b"x" * 10, ttl=10)
    assert not await store.put("b", b"x" * 11, ttl=10)
    assert await store.get("b") is None


async def test_what_one_process_put_among_the_documents_another_finds(file_url: str) -> None:
    async with Database(file_url) as database:
        await StoreCache(database.store).put("a", b"1", ttl=60)
    async with Database(file_url) as database:
        assert await StoreCache(database.store).get("a") == b"1"
        assert await StoreCache(database.store, kind="other").get("a") is None


async def test_in_memory_what_was_used_longest_ago_makes_room() -> None:
    store = MemoryCache(max_size=3)
    for key in "abc":
        await store.put(key, b"1", ttl=60)
    await store.get("a")
    await store.put("d", b"1", ttl=60)
    assert [await store.get(key) for key in "abcd"] == [b"1", None, b"1", b"1"]
    assert store.level == CacheLevel(entries=3, bytes=3, evicted=1)


async def test_in_memory_all_values_together_stay_within_their_bytes() -> None:
    store = MemoryCache(max_bytes=100)
    for number in range(20):
        await store.put(str(number), b"x" * 12, ttl=60)
        assert store.level.bytes <= 100
    await store.put("19", b"x", ttl=60)
    assert store.level == CacheLevel(entries=8, bytes=7 * 12 + 1, evicted=12)


async def test_what_expired_is_counted_apart_from_what_was_pushed_out(clock: Clock) -> None:
    store = MemoryCache(max_size=2, clock=clock)
    await store.put("a", b"1", ttl=10)
    await store.put("b", b"1", ttl=10)
    clock.now += 10
    await store.get("a")
    await store.put("c", b"1", ttl=10)
    await store.put("d", b"1", ttl=10)
    assert store.level == CacheLevel(entries=2, bytes=2, evicted=0, expired=2)


@pytest.mark.parametrize("bounds", [{"max_size": 0}, {"max_bytes": 0}])
async def test_a_cache_without_room_is_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="room"):
        MemoryCache(**bounds)
