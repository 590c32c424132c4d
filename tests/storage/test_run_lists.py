"""Lists of runs in pages: each filter alone and with others, and searches that end at their window."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.databases import change
from tests.storage.test_database import WITHOUT_CHAIN
from toolcaddie.core.storage import EventRecord, RunQuery
from toolcaddie.storage.database import Database
from toolcaddie.storage.migrations import VERSION_TABLE
from toolcaddie.storage.run_lists import RunLists
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio


def add(
    database: Database,
    run_id: str,
    at: float,
    *,
    tools: tuple[str, ...] = (),
    status: str = "completed",
    message: str = "hi",
    **principal: str,
) -> None:
    """Adds the rows of a run."""
    start = {"message": message, "principal": {"id": "ann", **principal}, "preset": "default"}
    facts: list[tuple[str, dict[str, Any]]] = [("run_started", start)]
    facts += [("call_finished", {"id": tool, "name": tool, "number": 1}) for tool in tools]
    facts += [("run_finished", {"status": status, "calls": len(tools), "client_calls": []})]
    for seq, (kind, data) in enumerate(facts, start=1):
        database.events.append(EventRecord(run_id=run_id, seq=seq, at=at, kind=kind, data=data))


async def ids(database: Database, **restrictions: Any) -> list[str]:
    """The ids on all pages of a query, two on each."""
    found: list[str] = []
    query = RunQuery(limit=2, **restrictions)
    while True:
        page = await database.run_lists.page(query)
        found += [run.run_id for run in page.runs]
        if page.cursor is None:
            return found
        query = replace(query, before=page.cursor)


async def test_each_filter_restricts_the_list_alone_and_with_others(database: Database) -> None:
    add(database, "a", 1.0, tools=("lock", "freeze"), bot="desk", message="Freeze 100% of it")
    add(database, "b", 2.0, tools=("freeze",), bot="desk", id="ben", status="failed")
    add(database, "c", 3.0, tools=("freeze",), tenant="acme", message="freeze ann's")
    add(database, "d", 3.0, message="nothing")
    assert await ids(database) == ["c", "d", "b", "a"]
    assert await ids(database, tool="freeze") == ["c", "b", "a"]
    assert await ids(database, tool="freeze", tenant="default") == ["b", "a"]
    assert await ids(database, tool="lock") == ["a"]
    assert await ids(database, bot="desk") == ["b", "a"]
    assert await ids(database, bot="desk", principal="ann") == ["a"]
    assert await ids(database, principal="ann", tenant="default") == ["d", "a"]
    assert await ids(database, tool="freeze", status="failed", bot="desk", principal="ben", tenant="default") == ["b"]
    assert await ids(database, text="FREEZE") == ["c", "a"]
    assert await ids(database, text="100%") == ["a"]
    assert await ids(database, text="%") == ["a"]
    assert await ids(database, text="_") == []
    assert await ids(database, since=2.0, until=3.0) == ["b"]
    assert await ids(database, tool="freeze", since=2.0, until=3.0) == ["b"]


async def test_a_search_ends_at_its_window_and_goes_on_after_it_without_a_gap(database: Database) -> None:
    for number in range(20):
        add(
            database, f"run-{number:02}", number // 3, tools=("lock",), message="needle" if number in (1, 18) else "hay"
        )
    lists = RunLists(database._reader, flush=database.events.flush_if_possible, window=5)
    for query in (
        RunQuery(text="needle"),
        RunQuery(text="needle", tool="lock"),
        RunQuery(text="needle", tenant="default"),
    ):
        found, cuts = [], 0
        while True:
            page = await lists.page(query)
            found += [run.run_id for run in page.runs]
            cuts += page.is_cut
            if page.cursor is None:
                break
            query = replace(query, before=page.cursor)
        assert found == ["run-18", "run-01"]
        assert cuts >= 2


async def test_the_tools_of_runs_are_named_once_and_invented_names_are_left_out(database: Database) -> None:
    add(database, "a", 1.0, tools=("lock", "freeze", "lock"))
    add(database, "b", 2.0, tools=("no\u0000name", "x" * 201, "lock"))
    await database.events.flush()
    assert await database.run_lists.tools(["a", "b"]) == {"a": ["freeze", "lock"], "b": ["lock"]}


async def test_a_run_of_another_tenant_is_not_there(database: Database) -> None:
    add(database, "a", 1.0, tenant="acme")
    assert await database.run_lists.run("a", tenant="default") is None
    for tenant in ("acme", None):
        run = await database.run_lists.run("a", tenant=tenant)
        assert run is not None
        assert run.run_id == "a"


async def test_what_changed_after_a_place_in_the_trail_is_read_once(database: Database) -> None:
    add(database, "a", 1.0, tools=("lock",))
    await database.events.flush()
    last = await database.run_lists.last_event()
    assert (await database.run_lists.news(last, limit=10)).runs == ()
    add(database, "b", 2.0, tools=("lock",))
    add(database, "c", 3.0)
    await database.events.flush()
    first = await database.run_lists.news(last, limit=4)
    rest = await database.run_lists.news(first.last, limit=4)
    assert [run.run_id for run in first.runs] == ["b", "c"]
    assert ([run.run_id for run in rest.runs], rest.is_whole, first.is_whole) == (["c"], True, False)
    assert rest.last == await database.run_lists.last_event()


async def test_pruned_runs_leave_no_tools_behind(file_url: str) -> None:
    async with Database(file_url) as database:
        add(database, "a", 1.0, tools=("lock",))
        await database.events.flush()
        assert (await database.retention.prune(10.0, by="a test")).runs == 1
        assert await database.run_lists.tools(["a"]) == {}


async def test_the_runs_of_an_older_version_are_found_by_bot_and_tool(file_url: str) -> None:
    async with Database(file_url) as database:
        add(database, "a", 1.0, tools=("lock", "freeze"), bot="desk")
        client = {"status": "client_calls", "client_calls": [{"id": "1", "name": "paint", "arguments": "{}"}]}
        add(database, "b", 2.0)
        database.events.append(EventRecord(run_id="b", seq=9, at=2.0, kind="run_finished", data=client))
    change(
        file_url,
        f"{WITHOUT_CHAIN} update {VERSION_TABLE} set version_num = '0006';"
        f"insert into events (id, run_id, seq, at, kind, data) values (99, 'a', 9, 2.0, 'call_finished', '{json.dumps([1])}')",
    )
    async with Database(file_url) as database:
        assert await ids(database, bot="desk") == ["a"]
        assert await ids(database, tool="freeze") == ["a"]
        assert await ids(database, tool="paint") == ["b"]
