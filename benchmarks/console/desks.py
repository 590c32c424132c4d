"""Fills the large database of the console with everything besides the runs, through the product's own parts: bots, keys,
questions, tools by bots, sources, conversations."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from benchmarks.console.trail import BOTS, DAYS, MODELS, run_name
from toolcaddie.app.authoring import authorship_of
from toolcaddie.app.build import Assembled
from toolcaddie.app.jobs import desk_of
from toolcaddie.app.runtimes import host_parts
from toolcaddie.core.approval import EXPIRY_SECONDS, Approval
from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Cron, NewJob
from toolcaddie.core.key_limits import KeyUsage
from toolcaddie.core.personas import GOALS, IDENTITY, LOGS, SOUL, Fact, PersonaKey, Provenance, fact_line
from toolcaddie.core.personas import Author as FileAuthor
from toolcaddie.core.tool import Tool
from toolcaddie.doors.console.playground.chats import Chats
from toolcaddie.doors.reviewing import Reviews
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.sources.mcp.definitions import Definition as McpDefinition
from toolcaddie.sources.mcp.pins import PinStore
from toolcaddie.tools.authored.values import Author, Definition
from toolcaddie.tools.improve.proposals import Proposals
from toolcaddie.tools.improve.values import Change, Proposal
from toolcaddie.util.replacing import replace

ADMIN = Principal(id="ada", role="admin")
PERSON = "default/ann"
"""The person about whom the first bot knows most."""
QUARANTINED = "vendor"
"""The MCP server, which cannot be started, whose tools wait in quarantine."""
KEYS, QUESTIONS, ANSWERED, TOOLS, CHATS, JOBS, PEOPLE, FACTS, VERSIONS = (
    300,
    500,
    300,
    300,
    1_000,
    300,
    1_000,
    5_000,
    50,
)
_PROPOSALS, _TALKS, _LOGS = 60, 60, 100
_LONG_CHAT = 2_000
_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "the text"}, "most": {"type": "integer", "default": 5}},
    "required": ["text"],
}


def reviews_of(parts: Assembled) -> Reviews:
    """Returns the reviews of tools by bots, as `toolcaddie serve` makes them."""
    return Reviews(authorship_of(parts.settings, host_parts(parts.settings, parts.documents)), parts.runtime.approvals)


async def furnish(parts: Assembled, tools: Sequence[Tool]) -> None:
    """Fills the database with all that bots, people and keys have."""
    await _add_keys(parts)
    await _ask(parts, tools)
    await _write_tools(parts)
    await _write_personas(parts)
    await _talk(parts)
    await _add_jobs(parts)
    await _propose(parts)
    pinned = [McpDefinition(name=f"old_{n}", input_schema=_SCHEMA) for n in range(20)]
    pins = PinStore(parts.documents)
    await pins.see(QUARANTINED, pinned, "quarantine")
    new = [McpDefinition(name=f"new_{n}", description="Pays a bill. " * 20, input_schema=_SCHEMA) for n in range(200)]
    await pins.see(QUARANTINED, [*pinned, *new], "quarantine")


async def _add_keys(parts: Assembled) -> None:
    chance, today = random.Random(1), datetime.now(UTC).date()
    for number in range(KEYS):
        tenant = chance.choice(("default", "acme", "north"))
        person = Principal(id=f"person_{number}", role=chance.choice(("viewer", "operator", None)), tenant=tenant)
        key, _ = await parts.keys.add(f"key {number}", person, limits={"requests_per_day": 1_000})
        for day in range(int(DAYS)):
            for model in MODELS:
                parts.meter.record(
                    KeyUsage(
                        key_id=key.id,
                        day=(today - timedelta(days=day)).isoformat(),
                        model=model,
                        requests=chance.randrange(50),
                        input_tokens=chance.randrange(50_000),
                        output_tokens=chance.randrange(5_000),
                        money=chance.randrange(10**9),
                    )
                )


async def _ask(parts: Assembled, tools: Sequence[Tool]) -> None:
    """Asks about calls, and answers some of the questions."""
    now, approvals = time.time(), parts.runtime.approvals
    for number in range(QUESTIONS + ANSWERED):
        tool = tools[number % 40]
        asked = now - (QUESTIONS + ANSWERED - number) * 60
        approval = Approval(
            id=f"approval_{number:032x}",
            run_id=run_name(number),
            call_id="call_1",
            tool=tool.name,
            arguments={"client": f"client {number}", "text": "word " * 40, "number": number},
            digest=f"{number:064x}",
            policy_version="1",
            principal=Principal(id=f"person_{number % 50}", bot=BOTS[0]),
            subject=replace(tool, description="", input_schema={"properties": {"client": {"type": "string"}}}),
            restrictions_kept=True,
            reason="more than 1000 needs an approval",
            rule="large",
            taint=("web_fetch",) if number % 3 == 0 else (),
            created=asked,
            expires=asked + EXPIRY_SECONDS,
        )
        await approvals.open(approval)
        if number < ANSWERED:
            await approvals.answer("default", approval.id, approved=number % 2 == 0, by=ADMIN, reason="it is right")


async def _write_tools(parts: Assembled) -> None:
    """Writes tools as bots do: approved ones, some of them in a second version, and such as wait or were rejected or revoked."""
    service = authorship_of(parts.settings, host_parts(parts.settings, parts.documents))
    for number in range(TOOLS):
        definition = Definition(
            name=f"written_{number:03}",
            description="Counts the words of a text, and returns the most frequent ones with their numbers.",
            type="python",
            source="def run(text, most=5):\n" + f"    # {number}\n" * 40 + "    return len(text.split()) + most\n",
            parameters=_SCHEMA,
            scope="all",
        )
        author = Author(principal=Principal(id=f"person_{number % 20}", bot=BOTS[number % 5]), run_id=run_name(number))
        tool = await service.create(definition, author)
        match number % 4:
            case 1:
                await service.reject("default", tool.id, by=ADMIN, note="not needed")
            case 2 | 3:
                await service.approve("default", tool.id, digest=tool.digest, by=ADMIN)
        if number % 8 == 2:
            tool = await service.change_scope("default", tool.id, BOTS[0], by=ADMIN)
            await service.approve("default", tool.id, digest=tool.digest, by=ADMIN)
        if number % 8 == 3:
            await service.revoke("default", tool.id, by=ADMIN)


async def _write_personas(parts: Assembled) -> None:
    """Writes the files of the bots: with many versions, and logs with the facts of many people."""
    files, author = StoredPersonas(parts.documents, kept=VERSIONS), FileAuthor(who=PERSON, taint=("web_fetch",))
    for bot in BOTS:
        key = PersonaKey(tenant="default", bot=bot)
        for path in (SOUL, IDENTITY, GOALS):
            for version in range(VERSIONS):
                text = "\n".join(f"- line {n} of version {version if n % 7 == 0 else 1}" for n in range(120))
                await files.write(key, path, text, author=author, expected=version)
    key, chance, today = PersonaKey(tenant="default", bot=BOTS[0]), random.Random(2), datetime.now(UTC).date()
    for number in range(_LOGS):
        people = [PERSON] * (FACTS // _LOGS) + [f"default/person_{chance.randrange(PEOPLE)}" for _ in range(50)]
        lines = [
            fact_line(
                Fact(
                    time=f"{place // 60:02}:{place % 60:02}",
                    text=f"They said number {place} of day {number}: they like tea. " * 2,
                    provenance=Provenance(who=who, chat=f"tg:{who[-3:]}", run=run_name(number), trust="clean"),
                )
            )
            for place, who in enumerate(people)
        ]
        day = (today - timedelta(days=number)).isoformat()
        await files.write(key, f"{LOGS}{day}.md", "\n".join(lines), author=author, expected=0)


async def _talk(parts: Assembled) -> None:
    """Adds chats of many people with the first bot, one of them a long one; and conversations in the playground."""
    chats = StoredChats(parts.documents)
    for number in range(CHATS):
        person = PERSON if number % 100 == 0 else f"default/person_{number % PEOPLE}"
        turns = [
            ChatTurn(role=role, text="word " * 40, at=time.time() - number, who=person, key=f"m{turn}{role}")
            for turn in range(_LONG_CHAT // 2 if number == 0 else 3)
            for role in ("user", "assistant")
        ]
        await chats.add(ChatKey(tenant="default", bot=BOTS[0], chat=f"tg:{number:04}"), turns)
    talks = Chats(parts.documents)
    for _ in range(_TALKS):
        chat = await talks.begin(ADMIN, bot=BOTS[0], model=MODELS[0], preset="default")
        for turn in range(20):
            _, begun = await talks.add(ADMIN, chat.id, f"message {turn} " * 20)
            await talks.put(ADMIN, chat.id, replace(begun, status="completed", text="It is done. " * 50, sent=20))


async def _add_jobs(parts: Assembled) -> None:
    desk = desk_of(parts.settings, parts.database.jobs, parts.documents)
    for number in range(JOBS):
        schedule = Cron(expr=f"{number % 60} 3 1 1 *")
        new = NewJob(text="Say hello. " * 5, schedule=schedule, owner=Principal(id=f"person_{number}", bot=BOTS[0]))
        await parts.database.jobs.add(desk.check(new), most=JOBS)


async def _propose(parts: Assembled) -> None:
    personas = StoredPersonas(parts.documents, kept=VERSIONS)
    proposals = Proposals(parts.documents, personas, clock=time.time)
    soul = await personas.read(PersonaKey(tenant="default", bot=BOTS[0]), SOUL)
    assert soul is not None
    for number in range(_PROPOSALS):
        after = soul.text.replace("line 5 ", f"proposal {number} ")
        proposal = Proposal(
            id=f"proposal_{number:03}",
            tenant="default",
            bot=BOTS[0],
            focus="soul",
            made=time.time() - number * 60,
            author=FileAuthor(who=PERSON),
            reviewer=BOTS[1],
            summary="It should say more about itself. " * 5,
            changes=(Change(path=SOUL, before=soul.text, after=after, version=soul.version),),
            status="open" if number % 3 == 0 else "rejected",
        )
        await proposals.add(proposal)
