"""A wall clock that is put back makes nothing fresh again: ages are measured with a clock that never goes back."""

from __future__ import annotations

import pytest

from tests.databases import rows
from tests.storage.conftest import Clock
from toolcaddie.core.control import Principal
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio


async def test_a_key_revoked_by_another_process_is_refused_within_a_second_although_the_clock_is_put_back(
    file_url: str,
) -> None:
    wall, steady = Clock(), Clock()
    async with Database(file_url, clock=wall, steady=steady) as server, Database(file_url) as beside:
        _, secret = await beside.keys.add("laptop", Principal(id="ann"))
        assert await server.keys.check(secret)
        await beside.keys.revoke("laptop")
        wall.now -= 3600
        steady.now += 1
        assert await server.keys.check(secret) is None


async def test_the_first_key_closes_the_door_within_a_second_although_the_clock_is_put_back(file_url: str) -> None:
    wall, steady = Clock(), Clock()
    async with Database(file_url, clock=wall, steady=steady) as server, Database(file_url) as beside:
        assert not await server.keys.any()
        await beside.keys.add("laptop", Principal(id="ann"))
        wall.now -= 3600
        steady.now += 1
        assert await server.keys.any()


async def test_the_last_use_of_a_key_is_noted_again_after_a_minute_although_the_clock_is_put_back(
    file_url: str,
) -> None:
    wall, steady = Clock(), Clock()
    async with Database(file_url, clock=wall, steady=steady) as server:
        _, secret = await server.keys.add("laptop", Principal(id="ann"))
        await server.keys.check(secret)
        wall.now -= 3600
        steady.now += 61
        await server.keys.check(secret)
        await server.store.put("any", "write", b"")  # writes are in order
        assert (await server.keys.list())[0].last_used == wall.now


async def test_expired_documents_are_swept_every_minute_although_the_clock_is_put_back(file_url: str) -> None:
    wall, steady = Clock(), Clock()
    async with Database(file_url, clock=wall, steady=steady) as server:
        await server.store.put("run", "first", b"x")
        wall.now -= 3600
        await server.store.put("run", "short", b"x", ttl=10)
        wall.now += 20
        steady.now += 61
        await server.store.put("run", "last", b"x")
    assert rows(file_url, "select key from documents order by key") == [("first",), ("last",)]
