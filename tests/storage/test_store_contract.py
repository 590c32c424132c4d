"""Every store keeps the contract, and the contract sees a store that does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests import postgresql
from tests.databases import database_url
from tests.storage.conftest import Clock
from tests.storage.opening import LEASE
from toolcaddie.core.storage import Document, DocumentPage
from toolcaddie.ports import Store
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.storage.scoped import ScopedStore
from toolcaddie.testing.store_contract import CHECKS, BrokenPromises, Check, Subject, check_all, checks_for

pytestmark = pytest.mark.anyio

FACTORY = "tests.storage.opening:database_store"


def subject_of(name: str, new_place: Callable[[], str], make: Callable[[Clock], Store] | None = None) -> Subject:
    """A subject whose time the checks move by hand: a database, or a store in memory that `make` gives."""
    clock = Clock()

    async def pass_time(seconds: float) -> None:
        clock.now += seconds

    @asynccontextmanager
    async def opened(place: str) -> AsyncIterator[Store]:
        if make is not None:
            yield make(clock)
            return
        async with Database(place, clock=clock, steady=clock, lease=LEASE) as database:
            yield database.store

    factory = "" if make else FACTORY
    return Subject(name=name, opened=opened, new_place=new_place, factory=factory, pass_time=pass_time)


def memory_subject(make: Callable[[Clock], Store] = lambda clock: MemoryStore(clock=clock)) -> Subject:
    return subject_of("memory", lambda: "", make)


@pytest.mark.parametrize("check", checks_for(memory_subject()), ids=str)
async def test_memory_keeps_the_contract(check: Check[Subject]) -> None:
    await check(memory_subject())


LONGEST_KEYS = (
    "any text of up to 512 characters is a key",
    "odd keys are ordered by code points",
    "a prefix is taken by the letter",
)
"""Checks with keys of 512 characters. A part of a store has its name in front of each key, so they may be that much shorter."""


@pytest.mark.parametrize(
    "check", [check for check in checks_for(memory_subject()) if str(check) not in LONGEST_KEYS], ids=str
)
async def test_a_part_of_a_store_keeps_the_contract(check: Check[Subject]) -> None:
    await check(memory_subject(lambda clock: ScopedStore(MemoryStore(clock=clock), "acme")))


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_sqlite_keeps_the_contract(check: Check[Subject], tmp_path: Path) -> None:
    await check(subject_of("sqlite", lambda: database_url(tmp_path / "store.sqlite")))


@pytest.fixture
def new_schema(postgresql_server: str) -> Iterator[Callable[[], str]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(postgresql.schema(postgresql_server))


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_postgresql_keeps_the_contract(check: Check[Subject], new_schema: Callable[[], str]) -> None:
    await check(subject_of("postgresql", new_schema))


# ---------------------------------------------------------------- stores that break their promises


class LooksBeforeItWrites(MemoryStore):
    """Compares, is interrupted, and then writes."""

    async def compare_and_set(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        expected: bytes | None,
        ttl: float | None = None,
        owner: int | None = None,
    ) -> bool:
        if await self.get(kind, key) != expected:
            return False
        await asyncio.sleep(0)
        await self.put(kind, key, value, ttl=ttl, owner=owner)
        return True


class ForgetsOwners(MemoryStore):
    """Lets anybody write under any lease."""

    async def put(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        ttl: float | None = None,
        urgent: bool = True,
        owner: int | None = None,
    ) -> None:
        await super().put(kind, key, value, ttl=ttl)


class NeverExpires(MemoryStore):
    async def put(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        ttl: float | None = None,
        urgent: bool = True,
        owner: int | None = None,
    ) -> None:
        await super().put(kind, key, value, owner=owner)


class CountsItsPages(MemoryStore):
    """Goes on behind so many documents, and not behind a key."""

    async def scan(self, kind: str, *, prefix: str = "", cursor: str | None = None, limit: int = 100) -> DocumentPage:
        start = int(cursor or 0)
        documents = (await super().scan(kind, prefix=prefix, limit=10_000)).documents
        over = start + limit >= len(documents)
        return DocumentPage(documents=documents[start : start + limit], cursor=None if over else str(start + limit))


class OrdersForPeople(MemoryStore):
    """Sorts as a dictionary does, as a database set up for a language would."""

    async def scan(self, kind: str, *, prefix: str = "", cursor: str | None = None, limit: int = 100) -> DocumentPage:
        page = await super().scan(kind, prefix=prefix, cursor=cursor, limit=limit)
        return DocumentPage(documents=sorted(page.documents, key=_folded), cursor=page.cursor)


def _folded(document: Document) -> str:
    return document.key.casefold()


class MixesAppends(MemoryStore):
    async def append(self, stream: str, values: Sequence[bytes], *, owner: int | None = None) -> int:
        position = await super().append(stream, [], owner=owner)
        for value in values:
            await asyncio.sleep(0)
            position = await super().append(stream, [value], owner=owner)
        return position


class WritesOneByOne(MemoryStore):
    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        for key, value in values.items():
            await self.put(kind, key, value, ttl=ttl)


class EndsTextAtNul(MemoryStore):
    async def get(self, kind: str, key: str) -> bytes | None:
        return await super().get(kind, key.partition("\0")[0])


@pytest.mark.parametrize(
    ("spoiled", "promise"),
    [
        (LooksBeforeItWrites, "of several at once one exchange succeeds"),
        (ForgetsOwners, "nothing is written under a lease that is not held"),
        (NeverExpires, "an expired document is gone for every verb"),
        (CountsItsPages, "what stays is scanned once whatever is written meanwhile"),
        (OrdersForPeople, "a scan gives the documents of its kind in the order of keys"),
        (MixesAppends, "appends at once are not mixed"),
        (WritesOneByOne, "many are written all or none"),
        (EndsTextAtNul, "any text of up to 512 characters is a key"),
    ],
)
async def test_a_store_that_breaks_a_promise_is_caught(spoiled: type[MemoryStore], promise: str) -> None:
    with pytest.raises(BrokenPromises, match=promise) as caught:
        await check_all(memory_subject(lambda clock: spoiled(clock=clock)), CHECKS)
    assert promise in caught.value.failures


async def test_a_store_that_keeps_all_its_promises_passes_at_once() -> None:
    await check_all(memory_subject(), CHECKS)
