"""The source `persona`: tools with which a bot changes what it knows about itself.

[[source]]
type = "persona"
timezone = "Europe/Madrid"   # default: the zone of this machine
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.numbers import Positive
from toolcaddie.core.personas import (
    GOALS,
    IDENTITY,
    LOGS,
    SOUL,
    Author,
    Fact,
    PersonaFile,
    PersonaKey,
    Provenance,
    fact_line,
    read_fact,
)
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import ToolAnnotations, ToolResult, failed
from toolcaddie.parts import Parts
from toolcaddie.ports import PersonaFiles
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.tools.files.diffs import unified
from toolcaddie.tools.persona.goals import added, changed, found_goal, goals_of, without_old
from toolcaddie.tools.persona.identity import with_fields
from toolcaddie.tools.persona.secrets import is_hidden, is_mostly_secret, without_secrets

_ATTEMPTS = 50
_ARCHIVE = "notes/goals-archive.md"
_CATEGORY = Category(
    name="persona", description="What the bot remembers, who it is, and its goals.", keywords=("remember",)
)
Line = Annotated[str, Field(max_length=500)]
Edit = Callable[[str], str]


def persona(
    *, soul: bool = True, goals: bool = True, timezone: str | None = None, known_days: Positive = 30, parts: Parts
) -> FunctionSource:
    """Returns the source. `soul`, `goals`: False omits these groups of tools. `known_days`: the days whose logs are searched
    for a fact that is known already. Raises `ConfigError` for a timezone that does not exist."""
    try:
        zone = None if timezone is None else ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigError(f"source 'persona': there is no timezone {timezone!r}; give an IANA name") from error
    tools = PersonaTools(parts=parts, zone=zone, known_days=known_days)
    methods = [tools.save_memory, tools.update_soul, tools.update_identity] if soul else []
    return FunctionSource(
        "persona",
        [*methods, *([tools.manage_goals] if goals else [])],
        [_CATEGORY],
        claims=("save_memory", "update_soul", "update_identity", "manage_goals"),
        assess=tools.assess,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonaTools:
    """The tools, as methods."""

    parts: Parts
    zone: ZoneInfo | None
    known_days: int

    @tool(category="persona", hints=("remember", "note"), destructive=False, open_world=False)
    async def save_memory(
        self, context: RunContext, fact: Annotated[str, Field(min_length=1, max_length=2_000)]
    ) -> ToolResult:
        """Remember a fact about the person for later conversations. Never save passwords, keys or phone numbers."""
        try:
            text = _storable(fact)
            trust: Literal["tainted", "clean"] = "tainted" if context.taint else "clean"
            now = datetime.fromtimestamp(self.parts.clock(), self.zone).astimezone(self.zone)
            origin = Provenance(who=_who(context), chat=context.conversation, run=context.run_id, trust=trust)
            line = fact_line(Fact(time=f"{now:%H:%M}", text=text, provenance=origin))
            files, key = self._files(), _key(context)
            days = [f"{LOGS}{now - timedelta(days=day):%Y-%m-%d}.md" for day in range(self.known_days)]
            for _ in range(_ATTEMPTS):
                logs = await files.read_many(key, days)
                if any(_is_known(file, text, origin) for file in logs.values()):
                    return ToolResult(content="Known: this fact is remembered already.", structured={"status": "known"})
                old = logs.get(days[0])
                before = "" if old is None else old.text
                after = f"{before}{'' if not before or before.endswith(chr(10)) else chr(10)}{line}\n"
                if await files.write(key, days[0], after, author=_author(context), expected=_version(old)):
                    status = "saved" if text == " ".join(fact.split()) else "redacted"
                    words = "Saved." if status == "saved" else f"Saved without its secrets: {text}"
                    return ToolResult(content=words, structured={"status": status})
            return failed("others write to this memory all the time; try again")
        except RequestError as error:
            return failed(str(error), own_words=True)

    @tool(category="persona", hints=("personality",), destructive=True, open_world=False)
    async def update_soul(self, context: RunContext, content: Annotated[str, Field(min_length=1)]) -> ToolResult:
        """Replace SOUL.md, which says who you are, as a whole. A person is asked first."""
        return await self._edited(context, SOUL, lambda old: content)

    @tool(category="persona", hints=("name", "emoji"), destructive=False, open_world=False)
    async def update_identity(
        self, context: RunContext, name: Line | None = None, emoji: Line | None = None, vibe: Line | None = None
    ) -> ToolResult:
        """Change your name, emoji or vibe in IDENTITY.md. Fields that are not given stay."""
        return await self._edited(context, IDENTITY, lambda old: _identity(old, name=name, emoji=emoji, vibe=vibe))

    @tool(category="persona", hints=("goal", "plan"), destructive=False, open_world=False)
    async def manage_goals(
        self,
        context: RunContext,
        action: Literal["list", "add", "update", "complete"],
        goal: Line = "",
        status: Literal["pending", "in_progress", "blocked"] | None = None,
        priority: Literal["high", "medium", "low"] | None = None,
        notes: Line | None = None,
        outcome: Line | None = None,
    ) -> ToolResult:
        """List, add, update or complete your goals in GOALS.md. A goal is found by a part of its text."""
        if action == "list":
            try:
                file = await self._files().read(_key(context), GOALS)
            except RequestError as error:
                return failed(str(error), own_words=True)
            return ToolResult(content=_listed("" if file is None else file.text))
        values = {"status": status, "priority": priority, "notes": notes, "outcome": outcome}
        return await self._edited(context, GOALS, lambda old: _goals(old, action, goal, values, self._today()))

    async def assess(self, name: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Returns the change that a call would make, if a person must be asked about it: always about SOUL.md, and about
        everything after untrusted content."""
        if name == "manage_goals" and arguments.get("action") == "list":
            return Assessment(annotations=ToolAnnotations(read_only=True, destructive=False, open_world=False))
        if name != "update_soul" and not context.taint:
            return NOTHING
        asked = ToolAnnotations(read_only=False, destructive=True, open_world=False)
        try:
            if name == "save_memory":
                preview = f"remembers, as tainted: {_storable(arguments['fact'])}"
                return Assessment(annotations=asked, preview=preview)
            path, edit = _edit_of(name, arguments)
            file = await self._files().read(_key(context), path)
            before = "" if file is None else file.text
            after = _changed(path, before, edit)
            preview = unified(path, None if file is None else before.encode(), after.encode())
            return Assessment(annotations=asked, preview=preview)
        except RequestError as error:
            return Assessment(refusal=str(error))

    async def _edited(self, context: RunContext, path: str, edit: Edit) -> ToolResult:
        try:
            files, key = self._files(), _key(context)
            for _ in range(_ATTEMPTS):
                file = await files.read(key, path)
                after = _changed(path, "" if file is None else file.text, edit)
                after, old_goals = without_old(after) if path == GOALS else (after, "")
                if old_goals:
                    await self._archive(files, key, old_goals, context)
                if await files.write(key, path, after, author=_author(context), expected=_version(file)):
                    return ToolResult(content=f"Changed {path}. The version before is kept.")
            return failed(f"others change {path} all the time; try again")
        except RequestError as error:
            return failed(str(error), own_words=True)

    async def _archive(self, files: PersonaFiles, key: PersonaKey, goals: str, context: RunContext) -> None:
        """Adds completed goals to the archive, unless an earlier attempt did."""
        for _ in range(_ATTEMPTS):
            file = await files.read(key, _ARCHIVE)
            before = "" if file is None else file.text
            if goals in before or await files.write(
                key, _ARCHIVE, before + goals, author=_author(context), expected=_version(file)
            ):
                return
        raise RequestError(f"others change {_ARCHIVE} all the time; try again")

    def _files(self) -> PersonaFiles:
        if self.parts.personas is None:
            raise RequestError("this host has no store, so a bot can remember nothing")
        return self.parts.personas

    def _today(self) -> str:
        return f"{datetime.fromtimestamp(self.parts.clock(), self.zone):%Y-%m-%d}"


def _key(context: RunContext) -> PersonaKey:
    bot = str(context.injected.get("_botId") or context.principal.bot or "")
    if not bot:
        raise RequestError("this request has no bot, so there is nothing that it could be or remember; name a bot")
    return PersonaKey(tenant=context.principal.tenant, bot=bot)


def _who(context: RunContext) -> str:
    return f"{context.principal.tenant}/{context.principal.id}"


def _author(context: RunContext) -> Author:
    return Author(who=_who(context), run_id=context.run_id, taint=context.taint)


def _version(file: PersonaFile | None) -> int:
    return 0 if file is None else file.version


def _storable(fact: str) -> str:
    """Returns a fact as it may be stored, on one line. Raises `RequestError` if it is mostly secret."""
    text = " ".join(without_secrets(fact).split())
    if is_hidden(fact) or (text != " ".join(fact.split()) and is_mostly_secret(text)):
        raise RequestError("Refused: this is a password, a key or a phone number, and nothing was saved.")
    return text


def _is_known(file: PersonaFile, text: str, origin: Provenance) -> bool:
    """Returns True if a log has the fact of this person, and as far trusted as it is now."""
    plain = _plain(text)
    word = max(plain.split(), key=len, default="")  # looked for first, because reading each line takes longer
    lines = (line for line in file.text.split("\n") if len(line) < 12_000 and "who=" in line)
    facts = (read_fact(line) for line in lines if not word.isascii() or word in line.casefold())
    return any(
        fact is not None
        and fact.provenance.who == origin.who
        and fact.provenance.trust in ("clean", origin.trust)
        and _plain(fact.text) == plain
        for fact in facts
    )


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w]+", " ", unicodedata.normalize("NFKC", text).casefold()).split())


def _changed(path: str, before: str, edit: Edit) -> str:
    after = edit(before)
    if after == before:
        raise RequestError(f"nothing would change in {path}")
    return after


def _edit_of(name: str, arguments: dict[str, Any]) -> tuple[str, Edit]:
    """Returns the file that a call changes, and the change. It does not depend on the day, so that an approval lasts."""
    match name:
        case "update_soul":
            return SOUL, lambda old: arguments["content"]
        case "update_identity":
            return IDENTITY, lambda old: _identity(old, **arguments)
        case _:
            values = {field: arguments.get(field) for field in ("status", "priority", "notes", "outcome")}
            return GOALS, lambda old: _goals(old, arguments["action"], arguments.get("goal", ""), values, "(the day)")


def _identity(old: str, **fields: str | None) -> str:
    given = {field: " ".join(value.split()) for field, value in fields.items() if value and value.strip()}
    if not given:
        raise RequestError("give at least one of name, emoji and vibe")
    return with_fields(old, given)


def _goals(old: str, action: str, goal: str, values: dict[str, str | None], today: str) -> str:
    goal = " ".join(goal.split())
    if not goal:
        raise RequestError(f"action {action} needs `goal`, the text of the goal or a part of it")
    given = {field: " ".join(value.split()) for field, value in values.items() if value and value.strip()}
    match action:
        case "add":
            return added(old, goal, {"status": "pending", "priority": "medium", **given})
        case "update":
            if not given:
                raise RequestError("give status, priority or notes to change")
            return changed(old, found_goal(old, goal), given)
        case _:
            completed = {name: value for name, value in given.items() if name in ("outcome", "notes")}
            return changed(old, found_goal(old, goal), {"completed": today, **completed}, done=True)


def _listed(text: str) -> str:
    goals = goals_of(text)
    lines = [
        f"[{'x' if goal.done else ' '}] {goal.text}"
        + "".join(f"; {name}: {value}" for name, value in goal.fields.items())
        for goal in goals
    ]
    return "\n".join(lines) or "There are no goals."
