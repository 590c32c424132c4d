"""`toolcaddie persona forget` removes what a person has arranged with a bot and is still to come."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.talking import url_at
from tests.doors.test_channels_bots import house, texts
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Every, NewJob
from toolcaddie.core.personas import Author, PersonaKey
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.personas import StoredPersonas
from toolcaddie.storage.database import Database
from toolcaddie.testing import call, say
from toolcaddie.tools.improve.proposals import Proposals
from toolcaddie.tools.improve.values import Change, Proposal

pytestmark = pytest.mark.anyio

ANNA = PersonaKey(tenant="default", bot="anna")
ANN, BEN = "tg:1", "tg:2"


async def arrange(folder: Path) -> None:
    """A job and a proposal of each person."""
    async with Database(url_at(folder)) as database:
        personas = StoredPersonas(database.store)
        await personas.write(ANNA, "SOUL.md", "I am calm.\n", author=Author(who="import"), expected=0)
        desk = JobDesk(rows=database.jobs, store=database.store)
        for who in (ANN, BEN):
            owner = Principal(id=who, bot="anna")
            await desk.add(NewJob(text=f"Ask {who}", schedule=Every(every_ms=3_600_000), owner=owner))
            proposal = Proposal(
                id=f"proposal_{who}",
                tenant="default",
                bot="anna",
                focus="soul",
                made=time.time(),
                author=Author(who=f"default/{who}"),
                reviewer="bot",
                summary="calmer",
                changes=(Change(path="SOUL.md", before="I am calm.\n", after="I am calmer.\n", version=1),),
            )
            await Proposals(database.store, personas, clock=time.time).add(proposal)


async def test_jobs_waiting_work_questions_and_proposals_of_a_person_are_shown_and_removed(tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    script = [call("delete_client", {"name": "John"}), call("delete_client", {"name": "Jane"}), say("Jane is gone.")]
    await arrange(tmp_path)

    async def forget(*words: str) -> Any:
        command = ("persona", "forget", "anna", "--person", f"default/{ANN}", "--database-url")
        return await asyncio.to_thread(line.json, *command, url_at(tmp_path), *words)

    async with house(tmp_path, script, allow=("1", "2"), approvers=("9",)) as (server, _, bots, provider):
        server.write("Delete John", person=1)
        await server.answers(2)
        server.write("Delete Jane", person=2)
        await server.answers(4)
        shown = await forget("--dry-run")
        assert [job["text"] for job in shown["jobs"]] == [f"Ask {ANN}"]
        assert [work["message"] for work in shown["waiting"]] == ["Delete John"]
        assert [question["arguments"] for question in shown["questions"]] == [{"name": "John"}]
        assert [proposal["id"] for proposal in shown["proposals"]] == [f"proposal_{ANN}"]
        assert await forget("--yes") == shown
        nothing = await forget("--dry-run")
        assert not any(nothing[kind] for kind in ("jobs", "waiting", "questions", "proposals"))
        server.write(f"/approve {shown['questions'][0]['id']}", person=9)
        await server.answers(5)
        assert texts(server, 9)[-1].startswith("This was not possible")
        server.press("Approve", person=9)
        await server.answers(7)
        await bots.continuing.look()
    assert texts(server, 1) == texts(server, 1)[:1]
    assert texts(server, 2)[-1] == "Jane is gone."
    assert len(provider.requests) == 3
    async with Database(url_at(tmp_path)) as database:
        assert [job.owner.id for job in await database.jobs.list()] == [BEN]
        proposals = Proposals(database.store, StoredPersonas(database.store), clock=time.time)
        assert [proposal.author.who for proposal in await proposals.all("default")] == [f"default/{BEN}"]
