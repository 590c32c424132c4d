"""Selections take half the room, and readers of the trail see nothing of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.databases import change, rows
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

REASONS = ["category clients: related to memberships", "words: membership", "spelled alike: member for membership"]


def selection(tools: int) -> dict[str, Any]:
    chosen = [
        {"name": f"tool_{number}", "category": f"c{number % 3}" if number else None, "score": 0.1, "reasons": REASONS}
        | ({"slim": True} if number % 2 else {})
        | ({"core": True} if number % 5 == 0 else {})
        for number in range(tools)
    ]
    dropped = [
        {"name": f"left_{number}", "stage": "max_tools", "detail": "max_tools is 24", "score": 0.0}
        for number in range(50)
    ]
    return {"tools": chosen, "dropped": dropped, "tokens": {"all": 1, "selected": 1}, "no_match": False}


def stored(file_url: str) -> bytes:
    return str(rows(file_url, "select data from events")[0][0]).encode()


async def test_a_selection_comes_back_as_it_was_and_takes_half_the_room(file_url: str) -> None:
    data = selection(30)
    async with Database(file_url) as database:
        database.events.append(EventRecord(run_id="a", seq=1, at=1.0, kind="tools_selected", data=data))
        assert [record.data for record in await database.events.events("a")] == [data]
    assert len(stored(file_url)) < len(msgspec.json.encode(data)) / 2


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"tools": [], "dropped": []},
        {"tools": "all of them", "dropped": []},
        {"tools": [{"name": "a", "later": "more keys"}]},
        {"tools": [{"name": "a", "category": None, "score": 0.1, "reasons": [], "later": 1}], "dropped": []},
        {"tools": [{"name": "a", "category": None, "score": 0.1, "reasons": [], "slim": False}], "dropped": []},
        {"tools": [{"name": "a", "category": None, "score": 0.1, "reasons": None}], "dropped": []},
        {"tools": [], "dropped": [{"name": "a", "stage": "s", "detail": "", "score": 0.0, "later": 1}]},
    ],
)
async def test_a_selection_of_another_shape_is_kept_as_it_is(database: Database, data: dict[str, Any]) -> None:
    database.events.append(EventRecord(run_id="a", seq=1, at=1.0, kind="tools_selected", data=data))
    assert [record.data for record in await database.events.events("a")] == [data]


async def test_selections_that_an_older_version_wrote_are_read_as_before(file_url: str) -> None:
    data = selection(3)
    async with Database(file_url) as database:
        row = f"'a', 1, 1.0, 'tools_selected', '{msgspec.json.encode(data).decode()}'"
        change(file_url, f"insert into events (run_id, seq, at, kind, data) values ({row})")
        assert [record.data for record in await database.events.events("a")] == [data]
