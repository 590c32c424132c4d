"""Pages of the trail: the newest rows first, each once, by person, kind, time and tenant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import database_url
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage import trail_pages
from toolcaddie.storage.database import Database
from toolcaddie.storage.trail_pages import SeenRow, TrailQuery
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

BEGIN = 1_800_000_000.0


async def written(database: Database) -> None:
    """Two runs of each of two people, 10 seconds apart, and one act of each."""
    for number in range(4):
        person, at = ("ann", "ben")[number % 2], BEGIN + number * 1_000
        data = {"message": "hello", "principal": {"id": person, "tenant": f"of {person}"}, "preset": "default"}
        for seq, (kind, its) in enumerate((("run_started", data), ("tool_called", {"name": "t"}))):
            database.events.append(EventRecord(run_id=f"run_{number}", seq=seq, at=at, kind=kind, data=its))
        await database.events.flush(f"run_{number}")
    for person in ("ann", "ben"):
        did = {"principal": person, "tenant": f"of {person}", "path": "/console/x"}
        for seq, kind in enumerate(("console_act", "console_act_ended")):
            record = EventRecord(run_id=f"act_{person}", seq=seq, at=BEGIN, kind=kind, data={} if seq else did)
            database.events.append(record)
        await database.events.flush(f"act_{person}")


async def pages(database: Database, query: TrailQuery) -> list[SeenRow]:
    """The rows of all pages of a query."""
    rows: list[SeenRow] = []
    while True:
        page = await database.audits.page(query)
        rows += page.rows
        if page.before is None:
            return rows
        query = replace(query, before=page.before)


@pytest.mark.parametrize("looked_at", [3, 100_000])
async def test_every_row_is_on_one_page_however_few_rows_a_page_looks_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    monkeypatch.setattr(trail_pages, "_LOOKED_AT", looked_at)
    async with Database(database_url(tmp_path / "trail.sqlite")) as database:
        await written(database)
        assert [row.id for row in await pages(database, TrailQuery(limit=5))] == list(range(12, 0, -1))
        of_ann = await pages(database, TrailQuery(person="ann", kind="run_*", limit=1))
        assert [row.record.run_id for row in of_ann] == ["run_2", "run_0"]
        of_tenant = await pages(database, TrailQuery(tenant="of ben"))
        assert {row.person for row in of_tenant} == {"ben"}
        middle = await pages(database, TrailQuery(since=BEGIN + 1_000, until=BEGIN + 2_500, kind="run_started"))
        assert [row.record.run_id for row in middle] == ["run_2", "run_1"]
        assert [row.record.seq for row in await pages(database, TrailQuery(run_id="run_1", limit=1))] == [1, 0]


async def test_acts_have_the_person_and_the_tenant_of_their_first_row(tmp_path: Path) -> None:
    async with Database(database_url(tmp_path / "trail.sqlite")) as database:
        await written(database)
        acts = await pages(database, TrailQuery(kind="console_act*", limit=1))
        assert [(row.record.run_id, row.person) for row in acts] == [
            ("act_ben", "ben"),
            ("act_ben", "ben"),
            ("act_ann", "ann"),
            ("act_ann", "ann"),
        ]
        assert {row.person for row in await pages(database, TrailQuery(kind="console_act*", tenant="of ann"))} == {
            "ann"
        }
        assert len(await pages(database, TrailQuery(kind="console_act_ended", person="ben"))) == 1
