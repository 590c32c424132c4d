"""Fills the database of a server with hostile texts, through the product's own parts: runs, questions, tools of bots, keys,
personas and jobs. The server is started afterwards, over the same database."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.console_browser.catalog import name_of
from tests.console_browser.payloads import PAYLOADS
from toolcaddie.app.authoring import authorship_of
from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.jobs import desk_of
from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.settings import Settings, load_settings
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.jobs import Every, NewJob
from toolcaddie.core.personas import Author as FileAuthor
from toolcaddie.core.personas import PersonaKey
from toolcaddie.core.tool import JsonObject
from toolcaddie.testing import call, say
from toolcaddie.tools.authored.values import Author, Definition

ADMIN = Principal(id="ada", role="admin")
BOT = "helper"
_TOOLS = 40
"""Number of tools that bots wrote. Each has several payloads."""
_KEYS = 60
_DAY_MS = 86_400_000
_MODEL = "hostile-model"

SETTINGS = """
catalogs = ["python:tests.console_browser.catalog"]
database_url = "sqlite:///{folder}/console.sqlite"
model = "{model}"
default_bot = "{bot}"

[upstream]
url = "{upstream}"
key_env = "HOSTILE_KEY"

[[source]]
type = "authored"
store_path = "{folder}/tools"
max_tools_per_bot = 1000

[[source]]
type = "cron"

[sandbox]
type = "plain"

[bots.{bot}]
description = {description}
skills = {skills}
"""


def settings_file(folder: Path, upstream: str) -> Path:
    """Writes the settings of the server, and returns their file."""
    file = folder / "toolcaddie.toml"
    text = SETTINGS.format(
        folder=folder,
        model=_MODEL,
        bot=BOT,
        upstream=upstream,
        description=json.dumps(PAYLOADS[0]),
        skills=json.dumps(PAYLOADS[:5]),
    )
    file.write_text(text, encoding="utf-8")
    return file


def model(body: Any) -> Any:
    """Answers as a hostile model: it calls a tool with the message as argument, or one that does not exist, and repeats the
    message."""
    messages = body["messages"]
    said = next(each["content"] for each in reversed(messages) if each["role"] == "user")
    place = PAYLOADS.index(said) if said in PAYLOADS else 1
    if messages[-1]["role"] == "tool" or not body.get("tools"):
        return say(said)
    if place % 5 == 1:
        return call(said[:60] or "nothing", {said: said})
    return call(name_of(place), {said: said, "choice": said}, text=said)


async def seed(file: Path) -> str:
    """Fills the database of the settings in `file`, and returns the API key of an admin."""
    settings = load_settings(file)
    async with assembled(settings) as parts:
        for place, payload in enumerate(PAYLOADS):
            await _run(parts, place, payload)
        await _write_tools(settings, parts, file.parent)
        await _write_persona(settings, parts)
        for payload in PAYLOADS:
            await _add_job(settings, parts, payload)
        for payload in [each for each in PAYLOADS if each.isprintable() and len(each) <= 64][:_KEYS]:
            person = Principal(id=payload, role=payload, bot=payload)
            await parts.keys.add(payload, person, limits={"requests_per_day": 100})
        return (await parts.keys.add("ada of the tests", ADMIN))[1]


async def _run(parts: Assembled, place: int, payload: str) -> None:
    principal = Principal(id=payload, role=payload, bot=BOT, channel=payload)
    with contextlib.suppress(ToolcaddieError):  # such a run is in the trail too, with its error
        await parts.runtime.run(payload, principal=principal, essential={name_of(place): payload})


async def _write_tools(settings: Settings, parts: Assembled, folder: Path) -> None:
    """Writes tools as bots do; a third of them is approved, and a third rejected. Somebody with access to the disk changes some
    afterwards: those hold what the service takes from no bot."""
    service = authorship_of(settings, host_parts(settings, parts.documents))
    for place in range(_TOOLS):
        texts = PAYLOADS[place::_TOOLS]
        text, printable = texts[0], [each for each in texts if each.isprintable()]
        definition = Definition(
            name=f"written_{place:02}",
            description="\n".join(printable),
            type="python",
            source=f"def run(**fields):\n    return {printable!r}\n",
            parameters=_schema(printable),
            scope="all",
        )
        author = Author(principal=Principal(id=text, bot=text, channel=text), run_id=text, taint=tuple(texts))
        tool = await service.create(definition, author)
        by, note = Principal(id=text), "\n".join(texts)
        if place % 3 == 1:
            await service.approve("default", tool.id, digest=tool.digest, by=by, note=note)
        elif place % 3 == 2:
            await service.reject("default", tool.id, by=by, note=note)
        if place % 6 == 1:
            meta = folder / "tools" / tool.id / "meta.json"
            changes = {"description": note, "parameters": _schema(texts)}
            meta.write_text(json.dumps({**json.loads(meta.read_text()), **changes}))
            meta.with_name("tool.py").write_text(f"# {text}\ndef run(**fields):\n    return {texts!r}\n")


def _schema(texts: Sequence[str]) -> JsonObject:
    return {
        "type": "object",
        "properties": {each: {"type": "string", "description": each, "default": each} for each in texts},
    }


async def _write_persona(settings: Settings, parts: Assembled) -> None:
    personas = host_parts(settings, parts.documents).personas
    assert personas is not None
    key, author = PersonaKey(tenant="default", bot=BOT), FileAuthor(who=PAYLOADS[0], taint=tuple(PAYLOADS[:5]))
    for path in ("SOUL.md", "IDENTITY.md", "GOALS.md", "memory/2026-11-20.md", "notes/hostile.md"):
        for version, texts in enumerate((PAYLOADS[::2], PAYLOADS)):
            text = "\n\n".join(f"- {each}" for each in texts)
            await personas.write(key, path, text, author=author, expected=version, note=PAYLOADS[version])


async def _add_job(settings: Settings, parts: Assembled, payload: str) -> None:
    desk = desk_of(settings, parts.database.jobs, parts.documents)
    person = Principal(id=payload, bot=BOT)
    new = NewJob(text=payload, name=payload, schedule=Every(every_ms=_DAY_MS), owner=person, kind="message")
    job = desk.check(new)
    await parts.database.jobs.add(job, most=len(PAYLOADS))
