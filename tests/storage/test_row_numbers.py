"""The numbers of a run's rows in the trail, if several processes write rows of one run at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_url
from toolcaddie import Runtime, tool
from toolcaddie.audit.trail import Trail
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, calls, say

pytestmark = pytest.mark.anyio

_RUNS, _QUESTIONS = 20, 4


@tool(destructive=True)
async def delete(number: int) -> str:
    """Deletes a record."""
    return f"deleted {number}"


@asynccontextmanager
async def server(url: str) -> AsyncIterator[tuple[Runtime, Database]]:
    """Yields a runtime over a connection of its own to the database, as another process has it."""

    def answer(request: Any) -> Any:
        first = int(request.messages[0].text) * _QUESTIONS
        results = [message for message in request.messages if message.role == "tool"]
        return say("done") if results else calls(*(("delete", {"number": first + n}) for n in range(_QUESTIONS)))

    async with Database(url) as database:
        runtime = Runtime(
            provider=ScriptedProvider(answer),
            sources=[delete],
            trail=Trail(database.events),
            documents=database.store,
        )
        async with runtime:
            yield runtime, database


async def test_rows_that_two_processes_write_at_once_have_different_numbers(tmp_path: Path) -> None:
    url = database_url(tmp_path / "trail.sqlite")
    async with server(url) as (one, database), server(url) as (two, _):
        paused = [await one.run(str(number)) for number in range(_RUNS)]
        questions = [item.approval for result in paused for item in result.state.pending]
        assert len(set(questions)) == _RUNS * _QUESTIONS
        await asyncio.gather(
            *(
                (one, two)[place % 2].approvals.answer("default", question, approved=True)
                for place, question in enumerate(questions)
            )
        )
        ended = await asyncio.gather(*(two.resume(result.run_id) for result in paused))
        assert {result.status for result in ended} == {"completed"}
        for result in paused:
            records = await database.events.events(result.run_id)
            kinds = [record.kind for record in records]
            assert kinds.count("approval_closed") == _QUESTIONS
            assert [record.seq for record in records] == [*range(1, len(records) + 1)], kinds
