"""Figures: every row of the trail is counted once, whoever counts, and what was counted stays."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.databases import change, database_url
from tests.storage.conftest import Clock
from toolcaddie.core.capabilities import Prices
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

AT = 1_795_824_000.0
DAY, MONTH = "2026-11-28", "2026-11"
PRICES = Prices(input=1.0, cached=0.1, written=1.0, output=10.0)


def prices_of(model: str) -> Prices | None:
    return PRICES if model == "priced" else None


async def records(database: Database, run_id: str, *rows: tuple[str, Mapping[str, Any]]) -> None:
    """Writes a run into the trail."""
    for seq, (kind, data) in enumerate(rows, start=1):
        database.events.append(EventRecord(run_id=run_id, seq=seq, at=AT, kind=kind, data=data))
    await database.events.flush()


def started(tenant: str = "default", bot: str | None = None) -> tuple[str, Mapping[str, Any]]:
    return "run_started", {"principal": {"id": "ann", "tenant": tenant, "bot": bot}, "message": "hello", "preset": "x"}


def answered(*tools: str, model: str = "priced", tokens: int = 1_000) -> tuple[str, Mapping[str, Any]]:
    calls = [{"id": "c", "name": name, "arguments": "{}"} for name in tools]
    return "model_answered", {"model": model, "usage": {"input": tokens, "output": 0}, "calls": calls}


def called(name: str, **more: Any) -> tuple[str, Mapping[str, Any]]:
    return "call_finished", {"id": "c", "name": name, "arguments": "{}", **more}


FINISHED = ("run_finished", {"status": "completed"})
FAILED = ("run_failed", {"status": "failed", "error": "no"})


async def counts_all(database: Database, *, step: int = 2_000) -> None:
    while (await database.figures.advance(prices_of, step=step)).behind:
        pass


async def test_a_run_counts_for_its_day_its_month_its_bot_and_its_tools(database: Database) -> None:
    await records(
        database, "r1", started(bot="desk"), answered("a", "b"), called("a"), called("b", error="failed"), FINISHED
    )
    await records(database, "r2", started(), answered(model="free"), FAILED)
    await counts_all(database)
    for period in (DAY, MONTH, "all"):
        (whole,) = await database.figures.names("requests", period, "default")
        assert (whole.number, whole.failed, whole.tokens, whole.money) == (2, 1, 2_000, 1_000_000)
        assert whole.unpriced == 1
        bots = await database.figures.names("bots", period, "default")
        assert [(bot.name, bot.number, bot.failed) for bot in bots] == [("", 1, 1), ("desk", 1, 0)]
        tools = await database.figures.names("tools", period, "default")
        assert [(tool.name, tool.number, tool.failed, tool.money) for tool in tools] == [
            ("a", 1, 0, 500_000),
            ("b", 1, 1, 500_000),
        ]
    days = await database.figures.days("requests", ["2026-11-27", DAY], "default")
    assert [(day.period, day.number) for day in days] == [("2026-11-27", 0), (DAY, 2)]


async def test_a_tenant_sees_only_its_own_figures_and_whoever_sees_all_sees_their_sum(database: Database) -> None:
    await records(database, "r1", started("acme"), called("secret_tool"), FINISHED)
    await records(database, "r2", started("other"), called("secret_tool"), called("open_tool"), FINISHED)
    await counts_all(database)
    acme = await database.figures.names("tools", DAY, "acme")
    assert [(tool.name, tool.number) for tool in acme] == [("secret_tool", 1)]
    every = await database.figures.names("tools", DAY, None)
    assert [(tool.name, tool.number) for tool in every] == [("secret_tool", 2), ("open_tool", 1)]
    for tenant, number in (("acme", 1), (None, 2)):
        assert [day.number for day in await database.figures.days("tools", [DAY], tenant, name="secret_tool")] == [
            number
        ]
    assert set(await database.figures.uses("tools", "all", "acme")) == {"secret_tool"}
    assert (await database.figures.uses("tools", "all", None))["secret_tool"].number == 2


async def test_two_processes_that_count_the_same_rows_count_them_once(file_url: str) -> None:
    async with Database(file_url) as first, Database(file_url) as second:
        for number in range(40):
            await records(first, f"r{number}", started(), called("a"), FINISHED)
        await asyncio.gather(counts_all(first, step=7), counts_all(second, step=5))
        (whole,) = await first.figures.names("requests", "all", None)
        (tool,) = await second.figures.names("tools", "all", None)
        assert (whole.number, tool.number) == (40, 40)


async def test_a_run_is_counted_for_its_tenant_also_if_its_beginning_was_counted_long_before(
    database: Database,
) -> None:
    await records(database, "r1", started("acme", bot="desk"), answered("a"))
    await counts_all(database, step=1)
    database.events.append(EventRecord(run_id="r1", seq=9, at=AT, kind="call_finished", data=called("a")[1]))
    await database.events.flush()
    await counts_all(database, step=1)
    (tool,) = await database.figures.names("tools", "all", "acme")
    assert tool.number == 1


async def test_pruning_the_trail_lowers_no_sum(database: Database, clock: Clock) -> None:
    await records(database, "r1", started(), called("a"), FINISHED)
    await counts_all(database)
    clock.now = AT + 100.0
    assert (await database.retention.prune(10.0, by="test")).runs == 1
    await counts_all(database)
    (tool,) = await database.figures.names("tools", "all", None)
    assert tool.number == 1


async def test_rows_that_cannot_be_read_or_stored_do_not_stop_the_count(database: Database) -> None:
    await records(
        database,
        "r1",
        started(),
        ("model_answered", {"model": "priced", "usage": {"input": 10**30}}),
        ("model_answered", {"model": "priced", "usage": "many"}),
        ("tools_selected", {"matched": [1, 2]}),
        ("call_finished", {"name": "nul\0 inside"}),
        ("call_finished", {"name": "x" * 10_000}),
        FINISHED,
    )
    await records(database, "r2", ("run_started", {"principal": {"bot": 7}}), called("b"))
    await records(database, "r3", started(), called("a"), FINISHED)
    await counts_all(database)
    tools = await database.figures.names("tools", "all", None)
    assert {tool.name for tool in tools} == {"a", "nul\N{REPLACEMENT CHARACTER} inside", "x" * 200}
    assert (await database.figures.progress()).behind == 0


async def test_names_that_models_invent_do_not_fill_the_table(database: Database) -> None:
    searches = [
        ("meta_called", {"name": "request_more_tools", "arguments": f'{{"reason": "thing {n}"}}', "added": []})
        for n in range(1_100)
    ]
    await records(database, "r1", started(), *searches, searches[0], FINISHED)
    await counts_all(database, step=500)
    names = await database.figures.names("searches", "all", None, most=5_000)
    assert sum(each.number for each in names) == 1_101
    assert len(names) == 1_001
    assert [(each.name, each.number) for each in names[:2]] == [("", 100), ("thing 0", 2)]


async def test_what_was_not_found_is_asked_for_and_what_was_found_is_not(database: Database) -> None:
    await records(
        database,
        "r1",
        started(),
        ("meta_called", {"name": "request_more_tools", "arguments": '{"reason": "Fly  home"}', "added": []}),
        ("meta_called", {"name": "request_more_tools", "arguments": '{"reason": "swim"}', "added": ["swim"]}),
        (
            "meta_called",
            {
                "name": "search_tools",
                "arguments": '{"query": "dive"}',
                "content": '{"total":0,"tools":[]}',
                "added": [],
            },
        ),
        (
            "meta_called",
            {"name": "search_tools", "arguments": '{"query": "run"}', "content": '{"total":3}', "added": []},
        ),
        called("teleport", error="unknown_tool"),
        FINISHED,
    )
    await counts_all(database)
    assert [each.name for each in await database.figures.names("searches", DAY, None)] == ["dive", "fly home"]
    assert [each.name for each in await database.figures.names("unknown", DAY, None)] == ["teleport"]
    assert await database.figures.names("tools", DAY, None) == []


async def test_what_each_strategy_would_have_cost_is_the_planners_estimate(database: Database) -> None:
    options = [
        {"strategy": "direct", "tokens": 900, "expected": 5.0, "dollars": 0.005},
        {"strategy": "masked", "tokens": 800, "expected": 4.0, "dollars": 0.004},
        {"strategy": "direct", "tokens": 700, "expected": 9.0, "dollars": 0.009},
    ]
    delivery = {"strategy": "masked", "tools": ["a"], "tokens": {"all": 5_000, "sent": 800}, "options": options}
    await records(database, "r1", started(), ("tools_delivered", delivery), FINISHED)
    await counts_all(database)
    figures = {each.name: each for each in await database.figures.names("strategies", DAY, None)}
    assert (figures["direct"].money, figures["direct"].instead, figures["direct"].sent) == (5_000_000, 4_000_000, 0)
    assert (figures["masked"].money, figures["masked"].sent) == (4_000_000, 1)
    assert figures["whole catalog"].input_tokens == 5_000


async def test_a_database_of_an_older_version_is_counted_from_its_beginning(tmp_path: Path) -> None:
    url = database_url(tmp_path / "old.sqlite")
    async with Database(url) as database:
        await records(database, "r1", started(), called("a"), FINISHED)
    change(
        url,
        "drop index runs_waiting; drop table figures; drop table figures_position; drop table commit_marks;"
        "update toolcaddie_schema set version_num = '0010'",
    )
    async with Database(url) as database:
        await counts_all(database)
        (tool,) = await database.figures.names("tools", "all", None)
        assert tool.number == 1


async def test_runs_that_wait_for_a_person_are_counted(database: Database) -> None:
    await records(database, "r1", started("acme"), ("run_paused", {"status": "pending"}))
    await records(database, "r2", started("acme"), FINISHED)
    assert [await database.figures.waiting(tenant) for tenant in (None, "acme", "other")] == [1, 1, 0]
