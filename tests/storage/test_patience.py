"""A PostgreSQL server that goes away for a moment fails nothing, and nothing is written twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from sqlalchemy import create_engine, make_url, select

from benchmarks.replicas.postgres import Postgres
from tests.free_port import free_port
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.database import Database
from toolcaddie.storage.tables import commit_marks

pytestmark = pytest.mark.anyio


LATE_SECONDS = 0.3
"""The delay of a late commit; by then its client has connected again."""


class Proxy:
    """Stands between a process and its PostgreSQL server, and cuts the connection of the next commit."""

    def __init__(self, database: str) -> None:
        self.url = make_url(database)
        self.cuts = ""
        """`before`: the next commit does not reach the server; `after`: it does, and its answer does not come back; `late`: it
        reaches the server when its client has lost the connection already."""
        self.writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = dict(self.url.query).get("host", self.url.host)
        server_reader, server_writer = await (
            asyncio.open_unix_connection(f"{host}/.s.PGSQL.{self.url.port or 5432}")
            if str(host).startswith("/")
            else asyncio.open_connection(str(host), self.url.port)
        )
        self.writers |= {writer, server_writer}
        swallowing = asyncio.Event()
        answers = asyncio.create_task(self._pass_on(server_reader, writer, swallowing))
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                cuts, self.cuts = (self.cuts, "") if b"COMMIT" in data else ("", self.cuts)
                if cuts == "before":
                    break
                if cuts == "late":
                    answers.cancel()
                    writer.close()
                    await asyncio.sleep(LATE_SECONDS)
                    server_writer.write(data)
                    await server_writer.drain()
                    break
                if cuts == "after":
                    swallowing.set()
                    server_writer.write(data)
                    await answers
                    break
                server_writer.write(data)
        answers.cancel()
        writer.close()
        server_writer.close()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, swallowing: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            if swallowing.is_set():
                return
            writer.write(data)


@asynccontextmanager
async def behind_proxy(database: str) -> AsyncIterator[tuple[Proxy, str]]:
    """Yields a proxy and the URL of the database behind it."""
    proxy = Proxy(database)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    query = {name: value for name, value in proxy.url.query.items() if name != "host"}
    url = proxy.url.set(host="127.0.0.1", port=port, query=query)
    try:
        yield proxy, url.render_as_string(hide_password=False)
    finally:
        server.close()
        for writer in proxy.writers:
            writer.close()


@pytest.mark.parametrize("cuts", ["before", "after", "late"])
async def test_work_whose_commit_was_cut_off_is_done_once(postgresql_url: str, cuts: str) -> None:
    async with behind_proxy(postgresql_url) as (proxy, url), Database(url) as database:
        await database.store.append("stream", [b"first"])
        proxy.cuts = cuts
        assert await database.store.append("stream", [b"second"]) == 2
        assert proxy.cuts == "", "the connection was cut"
        assert [entry.value for entry in await database.store.read("stream")] == [b"first", b"second"]


@pytest.mark.parametrize("cuts", ["before", "after", "late"])
async def test_the_first_work_of_a_process_is_done_once_if_its_commit_was_cut_off(
    postgresql_url: str, cuts: str
) -> None:
    async with behind_proxy(postgresql_url) as (proxy, url), Database(url) as database:
        proxy.cuts = cuts
        assert await database.store.append("stream", [b"first"]) == 1
        assert proxy.cuts == "", "the connection was cut"
        assert [entry.value for entry in await database.store.read("stream")] == [b"first"]


@pytest.mark.parametrize("cuts", ["before", "after", "late"])
async def test_rows_of_the_trail_whose_commit_was_cut_off_are_written_once(postgresql_url: str, cuts: str) -> None:
    async with behind_proxy(postgresql_url) as (proxy, url), Database(url) as database:
        for seq in (1, 2):
            database.events.append(EventRecord(run_id="run_1", seq=seq, at=0.0, kind="note", data={}))
            proxy.cuts = cuts
            await database.events.flush()
            assert proxy.cuts == "", "the connection was cut"
        assert [record.seq for record in await database.events.events("run_1")] == [1, 2]
        assert not (await database.audits.verify()).changes


@pytest.mark.parametrize("cuts", ["before", "after", "late"])
async def test_a_claim_whose_commit_was_cut_off_is_still_the_claim_of_this_process(
    postgresql_url: str, cuts: str
) -> None:
    async with behind_proxy(postgresql_url) as (proxy, url), Database(url) as database:
        await database.store.put("some", "other", b"x")
        proxy.cuts = cuts
        assert await database.store.compare_and_set("claim", "key", b"mine", expected=None)
        assert not await database.store.compare_and_set("claim", "key", b"again", expected=None)


async def test_reads_and_writes_wait_for_a_server_that_was_killed_and_no_row_of_the_trail_is_lost() -> None:
    server = Postgres(free_port())
    server.start()
    try:
        async with Database(server.url) as database:
            await database.store.put("some", "value", b"before")
            await asyncio.to_thread(server.kill)
            database.events.append(EventRecord(run_id="run_1", seq=1, at=0.0, kind="note", data={}))
            writing = asyncio.create_task(database.events.flush())
            reading = asyncio.create_task(database.store.get("some", "value"))
            await asyncio.to_thread(server.start)
            assert await reading == b"before"
            await writing
            assert len(await database.events.events("run_1")) == 1
            assert not (await database.audits.verify()).changes
    finally:
        server.remove()


async def test_the_marks_of_commits_do_not_grow(postgresql_url: str) -> None:
    async with Database(postgresql_url) as database:
        for number in range(20):
            await database.store.put("some", str(number), b"x")
    with create_engine(postgresql_url).connect() as connection:
        assert 1 <= len(connection.execute(select(commit_marks)).all()) <= 2
