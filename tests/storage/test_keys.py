from __future__ import annotations

import re
import sys

import anyio
import pytest

from tests.databases import content, rows
from tests.storage.conftest import Clock
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

ANN = Principal(id="ann", bot="front-desk", role="staff", tenant="north")


async def test_a_new_key_is_recognised_by_its_secret_and_brings_its_principal(database: Database) -> None:
    key, secret = await database.keys.add("laptop", ANN)
    found = await database.keys.check(secret)
    assert found is not None
    assert (found.id, found.name, found.principal) == (key.id, "laptop", ANN)


async def test_a_secret_is_32_random_bytes_behind_a_prefix(database: Database) -> None:
    secrets = {(await database.keys.add(f"key {number}", ANN))[1] for number in range(20)}
    assert len(secrets) == 20
    assert all(re.fullmatch(r"tc_[A-Za-z0-9_-]{43}", secret) for secret in secrets)


async def test_the_secret_is_nowhere_on_disk(file_url: str) -> None:
    async with Database(file_url) as database:
        key, secret = await database.keys.add("laptop", ANN)
    stored = content(file_url)
    assert key.hint.encode() in stored
    assert secret[len(key.hint) :].encode() not in stored
    assert secret.startswith(key.hint)


@pytest.mark.parametrize("wrong", ["", "tc_", "sk-something", "tc_" + "a" * 43, "tc_\udc80", "x" * 100_000])
async def test_an_unknown_secret_is_nobody(database: Database, wrong: str) -> None:
    await database.keys.add("laptop", ANN)
    assert await database.keys.check(wrong) is None


async def test_a_hash_taken_from_the_database_is_no_secret(file_url: str) -> None:
    async with Database(file_url) as database:
        await database.keys.add("laptop", ANN)
        ((digest,),) = rows(file_url, "select digest from api_keys")
        assert await database.keys.check(digest) is None


@pytest.mark.parametrize("by", ["id", "name"])
async def test_a_revoked_key_is_refused_at_once_and_stays_listed(database: Database, by: str) -> None:
    key, secret = await database.keys.add("laptop", ANN)
    assert await database.keys.check(secret)
    revoked = await database.keys.revoke(getattr(key, by))
    assert revoked.revoked is not None
    assert await database.keys.check(secret) is None
    assert [(one.name, one.revoked) for one in await database.keys.list()] == [("laptop", revoked.revoked)]
    found = await database.keys.find(key.id)
    assert found is not None
    assert (found.name, found.revoked) == ("laptop", revoked.revoked)
    assert await database.keys.find("laptop") is None


async def test_revoking_twice_keeps_the_first_time(database: Database, clock: Clock) -> None:
    await database.keys.add("laptop", ANN)
    first = await database.keys.revoke("laptop")
    clock.now += 100
    assert (await database.keys.revoke("laptop")).revoked == first.revoked


async def test_revoking_what_is_not_there_names_it(database: Database) -> None:
    with pytest.raises(RequestError, match="no key 'phone'"):
        await database.keys.revoke("phone")


async def test_names_are_unique_even_after_a_revocation(database: Database) -> None:
    await database.keys.add("laptop", ANN)
    await database.keys.revoke("laptop")
    with pytest.raises(RequestError, match="'laptop' already"):
        await database.keys.add("laptop", ANN)
    assert len(await database.keys.list()) == 1


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 65])
async def test_a_name_that_is_none_is_refused(database: Database, name: str) -> None:
    with pytest.raises(RequestError, match="printable"):
        await database.keys.add(name, ANN)


async def test_any_tells_whether_a_key_was_ever_made(database: Database) -> None:
    """Revoking the last one must not turn a guarded server into an open one."""
    assert not await database.keys.any()
    await database.keys.add("laptop", ANN)
    assert await database.keys.any()
    await database.keys.revoke("laptop")
    assert await database.keys.any()


async def test_the_last_use_is_noted_once_a_minute(database: Database, clock: Clock) -> None:
    _, secret = await database.keys.add("laptop", ANN)
    await database.keys.check(secret)
    first = clock.now
    clock.now += 30
    await database.keys.check(secret)
    await database.store.put("any", "write", b"")  # writes are in order: the note is on disk before this returns
    assert (await database.keys.list())[0].last_used == first
    clock.now += 31
    await database.keys.check(secret)
    await database.store.put("any", "write", b"")
    assert (await database.keys.list())[0].last_used == clock.now


_OTHER_PROCESS = """
import asyncio, sys
from toolcaddie.core.run import Principal
from toolcaddie.storage.database import Database

async def main():
    async with Database(sys.argv[1]) as database:
        if sys.argv[2] == "add":
            print((await database.keys.add("phone", Principal(id="bob")))[1])
        else:
            await database.keys.revoke("phone")

asyncio.run(main())
"""


async def test_a_key_made_or_revoked_beside_a_running_server_counts_within_a_second(
    file_url: str, clock: Clock
) -> None:
    async def beside(verb: str) -> str:
        done = await anyio.run_process([sys.executable, "-c", _OTHER_PROCESS, file_url, verb])
        return done.stdout.decode().strip()

    async with Database(file_url, clock=clock, steady=clock) as database:
        assert not await database.keys.any()
        secret = await beside("add")
        found = await database.keys.check(secret)
        assert found is not None
        assert found.principal.id == "bob"
        clock.now += 1
        assert await database.keys.any()
        await beside("revoke")
        clock.now += 1
        assert await database.keys.check(secret) is None


async def test_a_hundred_requests_with_one_key_share_one_look_into_the_database(file_url: str) -> None:
    clock = Clock()
    async with Database(file_url, clock=clock, steady=clock) as database:
        _, secret = await database.keys.add("laptop", ANN)
        for _ in range(2):
            looked_up: list[object] = []

            async def check(results: list[object] = looked_up) -> None:
                results.append(await database.keys.check(secret))

            async with anyio.create_task_group() as tasks:
                for _ in range(100):
                    tasks.start_soon(check)
            assert len(looked_up) == 100
            assert len({id(key) for key in looked_up}) == 1
            clock.now += 1


async def test_a_key_that_was_revoked_is_refused_at_once_by_the_process_that_revoked_it(database: Database) -> None:
    _, secret = await database.keys.add("laptop", ANN)
    assert await database.keys.check(secret) is not None
    await database.keys.revoke("laptop")
    assert await database.keys.check(secret) is None
