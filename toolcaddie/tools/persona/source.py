"""The source `persona`: tools with which a bot changes what it knows about itself.

[[source]]
type = "persona"
timezone = "Europe/Madrid"   # default: the zone of this machine
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.numbers import Positive
from toolcaddie.core.personas import GOALS, LOGS, Author, Fact, PersonaFile, PersonaKey, fact_line
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import ToolAnnotations, ToolResult, failed
from toolcaddie.guards.markers import neutral
from toolcaddie.parts import Parts
from toolcaddie.ports import PersonaFiles
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.tools.files.diffs import unified
from toolcaddie.tools.persona.archive import archive
from toolcaddie.tools.persona.edits import FILE_OF, edited
from toolcaddie.tools.persona.facts import is_known, one_line, origin_of, safe_fact, with_line
from toolcaddie.tools.persona.goals import goals_of, without_old
from toolcaddie.tools.persona.shares import check_shares
from toolcaddie.util.zones import close_zones, machine_zone, zone_of

BOT_ID = "_botId"
"""Name of the injected value with the bot whose files are meant. Only the host can inject it."""

_ATTEMPTS = 50
"""The largest number of times that a change is repeated because others changed the file meanwhile."""
_SOME_DAY = "(the day)"
"""Stands for the date in a preview. An approval counts as long as the preview stays the same, so also on the next day."""
_TAINTED = "it changes what the bot is or remembers for everybody, after untrusted content"
_CATEGORY = Category(
    name="persona", description="What the bot remembers, who it is, and its goals.", keywords=("remember",)
)
Line = Annotated[str, Field(max_length=500)]


def persona(
    *, soul: bool = True, goals: bool = True, timezone: str | None = None, known_days: Positive = 30, parts: Parts
) -> FunctionSource:
    """Returns the source. `soul`, `goals`: False omits these groups of tools. `known_days`: the days whose logs are searched
    for a fact that is known already. Raises `ConfigError` for a timezone that does not exist."""
    name = machine_zone() if timezone is None else timezone
    zone = zone_of(name)
    if zone is None:
        raise ConfigError(f"source 'persona': there is no timezone {name!r}; {close_zones(name)}")
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
    zone: ZoneInfo
    known_days: int

    @tool(category="persona", hints=("remember", "note"), destructive=False, open_world=False)
    async def save_memory(
        self, context: RunContext, fact: Annotated[str, Field(min_length=1, max_length=2_000)]
    ) -> ToolResult:
        """Remember a fact about the person for later conversations. Never save passwords, keys or phone numbers."""
        try:
            text, origin, now = safe_fact(fact), origin_of(context), self._now()
            line = fact_line(Fact(time=f"{now:%H:%M}", text=text, provenance=origin))
            files, key = self._files(), _key(context)
            days = [f"{LOGS}{now - timedelta(days=day):%Y-%m-%d}.md" for day in range(self.known_days)]
            for _ in range(_ATTEMPTS):
                logs = await files.read_many(key, days)
                if is_known(logs.values(), text, origin):
                    return ToolResult(content="Known: this fact is remembered already.", structured={"status": "known"})
                old = logs.get(days[0])
                before = "" if old is None else old.text
                check_shares(before, line, origin)
                after = with_line(before, line)
                if await files.write(key, days[0], after, author=_author(context), expected=_version(old)):
                    return _saved(fact, text)
            return failed("others write to this memory all the time, so nothing was saved; try again")
        except RequestError as error:
            return failed(str(error), own_words=True)

    @tool(category="persona", hints=("personality",), destructive=True, open_world=False)
    async def update_soul(self, context: RunContext, content: Annotated[str, Field(min_length=1)]) -> ToolResult:
        """Replace SOUL.md, which says who you are, as a whole. A person is asked first."""
        return await self._edited("update_soul", {"content": content}, context)

    @tool(category="persona", hints=("name", "emoji"), destructive=False, open_world=False)
    async def update_identity(
        self, context: RunContext, name: Line | None = None, emoji: Line | None = None, vibe: Line | None = None
    ) -> ToolResult:
        """Change your name, emoji or vibe in IDENTITY.md. Fields that are not given stay."""
        return await self._edited("update_identity", {"name": name, "emoji": emoji, "vibe": vibe}, context)

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
        return await self._edited("manage_goals", {"action": action, "goal": goal, **values}, context)

    async def assess(self, name: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Returns the change that a call would make, if a person is to be asked about it: always about SOUL.md, and about
        everything after untrusted content, then whatever the policy says."""
        if name == "manage_goals" and arguments.get("action") == "list":
            return Assessment(annotations=ToolAnnotations(read_only=True, destructive=False, open_world=False))
        if name != "update_soul" and not context.taint:
            return NOTHING
        asked = ToolAnnotations(read_only=False, destructive=True, open_world=False)
        reason = _TAINTED if context.taint else ""
        try:
            if name == "save_memory":
                preview = f"remembers, as tainted: {safe_fact(arguments['fact'])}"
                return Assessment(annotations=asked, preview=preview, question=reason)
            path = FILE_OF[name]
            file = await self._files().read(_key(context), path)
            before = "" if file is None else file.text
            after = edited(name, arguments, before, today=_SOME_DAY).text
            preview = unified(path, None if file is None else before.encode(), after.encode())
            return Assessment(annotations=asked, preview=preview, question=reason)
        except RequestError as error:
            return Assessment(refusal=str(error))

    async def _edited(self, name: str, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        path, now = FILE_OF[name], self._now()
        try:
            files, key = self._files(), _key(context)
            for _ in range(_ATTEMPTS):
                file = await files.read(key, path)
                change = edited(name, arguments, "" if file is None else file.text, today=f"{now:%Y-%m-%d}")
                after, old_goals = without_old(change.text) if path == GOALS else (change.text, "")
                if old_goals:
                    version, month = _version(file), f"{now:%Y-%m}"
                    await archive(files, key, old_goals, version=version, month=month, author=_author(context))
                if await files.write(key, path, after, author=_author(context), expected=_version(file)):
                    return _changed(path, is_redacted=change.is_redacted)
            return failed(f"others change {path} all the time; try again")
        except RequestError as error:
            return failed(neutral(str(error)), own_words=True)  # it may quote goals

    def _files(self) -> PersonaFiles:
        if self.parts.personas is None:
            raise RequestError("this host has no store, so a bot can remember nothing")
        return self.parts.personas

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.parts.clock(), self.zone)


def _saved(fact: str, text: str) -> ToolResult:
    if text == one_line(fact):
        return ToolResult(content="Saved.", structured={"status": "saved"})
    return ToolResult(content=f"Saved without its secrets: {text}", structured={"status": "redacted"})


def _changed(path: str, *, is_redacted: bool) -> ToolResult:
    how = " without the secrets of the call" if is_redacted else ""
    status = "redacted" if is_redacted else "changed"
    return ToolResult(
        content=f"Changed {path}{how}. The version before is kept.", structured={"path": path, "status": status}
    )


def _key(context: RunContext) -> PersonaKey:
    bot = str(context.injected.get(BOT_ID) or context.principal.bot or "")
    if not bot:
        raise RequestError("this request has no bot, so there is nothing that it could be or remember; name a bot")
    return PersonaKey(tenant=context.principal.tenant, bot=bot)


def _author(context: RunContext) -> Author:
    return Author(who=origin_of(context).who, run_id=context.run_id, taint=context.taint)


def _version(file: PersonaFile | None) -> int:
    return 0 if file is None else file.version


def _listed(text: str) -> str:
    lines = [
        f"[{'x' if goal.done else ' '}] {goal.text}"
        + "".join(f"; {name}: {value}" for name, value in [*goal.fields.items()][::-1])
        for goal in goals_of(text)
    ]
    return neutral("\n".join(lines)) or "There are no goals."
