"""Fills the database of the friendly server through the product's own parts, before the server is started."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolcaddie.app.authoring import authorship_of
from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.improving import stored_proposals
from toolcaddie.app.jobs import desk_of
from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.settings import Settings, load_settings
from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Every, NewJob
from toolcaddie.core.personas import Author as FileAuthor
from toolcaddie.core.personas import Fact, PersonaKey, Provenance, fact_line
from toolcaddie.core.storage import EventRecord
from toolcaddie.doors.console.complete import console_of
from toolcaddie.doors.console.sections import PageRoute
from toolcaddie.doors.reviewing import Reviews
from toolcaddie.personas import StoredChats
from toolcaddie.sources.mcp.definitions import Definition as McpDefinition
from toolcaddie.sources.mcp.pins import PinStore
from toolcaddie.tools.authored.values import Author, Definition
from toolcaddie.tools.improve.values import Change, Proposal
from toolcaddie.util.replacing import replace

BOT = "helper"
PEOPLE: Mapping[str, str | None] = {"ada": "admin", "adam": "admin", "otto": "operator", "vera": "viewer", "ann": None}
"""The role of each person's API key."""
STRANGER = '"><img src=x onerror=hit()>'
"""A person with a hostile name, who also has an API key."""
OLD_RUNS = 120
"""The number of runs before the server was started."""
WRITTEN = ("to_approve", "to_reject", "to_revoke", "to_roll_back", "to_rename", "to_delete")
"""The tools that bots wrote. All wait for an approval, but the last version of `to_revoke`, and two of `to_roll_back`."""
UNKNOWN_RUN = "run_unknown"
"""A run in which nobody knows if a call took effect."""
SOUL = ("Be kind.\n", "Be kind.\nBe brief.\n")
_DAY_MS = 86_400_000
_ANN = FileAuthor(who="default/ann", run_id="run_1")
_KEY = PersonaKey(tenant="default", bot=BOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Facts about the database that the tests need."""

    keys: Mapping[str, str]
    """The API key of each person."""
    forms: Sequence[PageRoute]
    """The targets of all forms of the console."""


async def filled(file: Path) -> Filled:
    """Fills the database of the settings in `file`."""
    settings = load_settings(file)
    no_server = replace(settings, source=tuple(each for each in settings.source if each.type != "mcp"))
    async with assembled(no_server) as parts:
        service = authorship_of(settings, host_parts(settings, parts.documents))
        console = console_of(parts, Reviews(service, parts.runtime.approvals))
        assert console is not None
        _record_runs(parts)
        await _write_tools(settings, parts)
        await _write_bot(settings, parts)
        pins = PinStore(parts.documents)
        await pins.see("growing", [McpDefinition(name="old", input_schema={"type": "object"})], "quarantine")
        keys = {
            name: (await parts.keys.add(f"{name} of the tests", Principal(id=name, role=role)))[1]
            for name, role in PEOPLE.items()
        }
        keys[STRANGER] = (await parts.keys.add("somebody else", Principal(id=STRANGER)))[1]
        return Filled(keys=keys, forms=[route for _, route in console.routes if route.method == "POST"])


def _record_runs(parts: Assembled) -> None:
    first = time.time() - 86_400
    for number in range(OLD_RUNS):
        run_id, at = f"run_{number:03}", first + number
        bot = {"bot": "clerk"} if number % 10 == 0 else {}
        begun = {"message": f"old message {number}", "principal": {"id": f"person{number % 3}", **bot}}
        _append(parts, run_id, 1, at, "run_started", {**begun, "preset": "default", "catalog_size": 3})
        if number == 7:
            _append(parts, run_id, 2, at, "call_finished", {"id": "1", "name": "look_up"})
        _append(parts, run_id, 3, at, "run_finished", {"status": "completed", "text": "yes"})
    call = {"id": "call_1", "name": "write_note", "arguments": "{}"}
    begun = {"message": "pay the bill", "principal": {"id": "ann"}, "preset": "default", "catalog_size": 3}
    _append(parts, UNKNOWN_RUN, 1, first - 10, "run_started", begun)
    _append(parts, UNKNOWN_RUN, 2, first - 9, "call_intended", call)
    _append(parts, UNKNOWN_RUN, 3, first - 8, "call_unknown", {**call, "reason": "killed"})
    _append(parts, UNKNOWN_RUN, 4, first - 7, "run_failed", {"status": "failed", "error": "gone", "kind": "Lost"})


def _append(parts: Assembled, run_id: str, seq: int, at: float, kind: str, data: Mapping[str, object]) -> None:
    parts.event_log.append(EventRecord(run_id=run_id, seq=seq, at=at, kind=kind, data=data))


async def _write_tools(settings: Settings, parts: Assembled) -> None:
    service = authorship_of(settings, host_parts(settings, parts.documents))
    author = Author(principal=Principal(id="ann", bot=BOT, channel="gateway"), run_id="run_1")
    for name in WRITTEN:
        definition = Definition(
            name=name,
            description=f"Counts the words of a text, {name}.",
            type="python",
            source="def run(text):\n    return len(text.split())\n",
            parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            scope="all",
        )
        tool = await service.create(definition, author)
        if name in ("to_revoke", "to_roll_back"):
            await service.approve("default", tool.id, digest=tool.digest, note="first")
        if name == "to_roll_back":
            _change_by_hand(Path(str(settings.source[0].config["store_path"]), tool.id, "tool.py"))


def _change_by_hand(file: Path) -> None:
    file.write_text("def run(text):\n    return len(text)\n", encoding="utf-8")


async def _write_bot(settings: Settings, parts: Assembled) -> None:
    personas = host_parts(settings, parts.documents).personas
    assert personas is not None
    for number, text in enumerate(SOUL):
        await personas.write(_KEY, "SOUL.md", text, author=_ANN, expected=number)
    origin = Provenance(who="default/ann", chat="telegram:42", run="run_1", trust="clean")
    fact = fact_line(Fact(time="09:00", text="Ann likes green tea.", provenance=origin))
    await personas.write(_KEY, "memory/2026-05-03.md", f"{fact}\n", author=_ANN, expected=0)
    chat = ChatKey(tenant="default", bot=BOT, chat="telegram:42")
    turn = ChatTurn(role="user", text="Good morning.", at=1_780_000_000.0, who="default/ann")
    await StoredChats(parts.documents).add(chat, [turn])
    desk = desk_of(settings, parts.database.jobs, parts.documents)
    owner = Principal(id="otto", bot=BOT)
    job = desk.check(NewJob(text="Water the flowers.", name="flowers", schedule=Every(every_ms=_DAY_MS), owner=owner))
    await parts.database.jobs.add(job, most=10)
    proposals = stored_proposals(settings, parts.documents)
    for name, path, before, after in (
        ("improve_1", "notes/good.md", "", "Notes are good.\n"),
        ("improve_2", "SOUL.md", SOUL[1], f"{SOUL[1]}Be loud.\n"),
    ):
        change = Change(path=path, before=before, after=after, version=0 if not before else 2)
        proposal = Proposal(
            id=name,
            tenant="default",
            bot=BOT,
            focus="soul",
            made=time.time(),
            author=_ANN,
            reviewer="practice",
            summary=json.dumps(after),
            changes=(change,),
        )
        await proposals.add(proposal)
