"""The source `team`: its two tools, and what it says of a call before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from toolcaddie.core.assessment import Assessment
from toolcaddie.core.bots import BotAnswer, BotCard, BotWork, ChatAddress, ChatKey, chat_of
from toolcaddie.core.catalog import Category
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, OutboundError, ProviderError, RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.parts import Parts
from toolcaddie.ports import BotRunner, Messenger
from toolcaddie.tools.team.asking import asked_bot, own_bot, result_of, tools_of, work_id, work_of
from toolcaddie.tools.team.definitions import CATEGORY, COLLABORATE, DELEGATE, collaborate_tool, delegate_tool
from toolcaddie.tools.team.sessions import Sessions, session_chat, target_of
from toolcaddie.tools.team.settings import TeamSettings

_READS = ToolAnnotations(read_only=True, open_world=False)


class NoBots:
    """Implements `ports.BotRunner` for a host without bots."""

    def cards(self, asker: Principal, tools: Sequence[str] | None = None) -> Sequence[BotCard]:
        return ()

    async def answer(self, work: BotWork) -> BotAnswer:
        raise RequestError("this host has no bots")

    async def begin(self, work: BotWork) -> None:
        raise RequestError("this host has no bots")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A chat of several people, in which bots post what they say to each other."""

    messenger: Messenger
    address: ChatAddress

    async def post(self, text: str, *, key: str, sender: str) -> None:
        await self.messenger.send(self.address, text, key=key, sender=sender)


class TeamSource:
    """Implements `ports.OpenableSource`. It learns how many bots there are when it is opened."""

    name = "team"
    claims = frozenset({DELEGATE, COLLABORATE})

    def __init__(self, parts: Parts, settings: TeamSettings, sessions: Sessions | None) -> None:
        self._parts = parts
        self._bots: BotRunner = parts.bots or NoBots()
        self._settings = settings
        self._sessions = sessions
        self._tools: tuple[Tool, ...] = ()
        self._revision = 0

    @property
    def revision(self) -> int:
        return self._revision

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return (CATEGORY,)

    async def open(self) -> None:
        settings = self._settings
        several = len(self._bots.cards(Principal(), ())) > 1
        tools = [delegate_tool(self.name, settings.step_timeout)] if settings.delegation and several else []
        if settings.collaboration and several:
            tools.append(collaborate_tool(self.name, settings.step_timeout))
        self._tools = tuple(tools)
        self._revision += 1

    async def close(self) -> None:
        """Closes nothing: the tools stay listed, and work as long as the bots do."""

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Refuses what cannot work, so that nobody is asked about it. After untrusted content a message to a bot asks, because it
        may carry the words of strangers."""
        action = arguments.get("action", "send")
        if tool.name == COLLABORATE and action != "send":
            return Assessment(annotations=_READS if action == "discover" else None)
        try:
            target = asked_bot(self._bots, context, _target(arguments)).name
            message = _message(arguments)
            visible = bool(arguments.get("visible"))
            place = f" in {self._group(context).address.chat}" if visible else ""
        except RequestError as error:
            return Assessment(refusal=str(error))
        annotations = ToolAnnotations(
            read_only=False, destructive=bool(context.taint), idempotent=False, open_world=visible
        )
        return Assessment(annotations=annotations, preview=f"{own_bot(context)} to {target}{place}:\n{message}")

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        try:
            if tool.name == DELEGATE:
                return await self._delegated(arguments, context)
            if tool.name == COLLABORATE and self._sessions is not None:
                return await self._collaborated(arguments, context, self._sessions)
        except (ConfigError, RequestError, ProviderError, OutboundError) as error:
            return failed(str(error))
        return failed(f"the tool {tool.name!r} has been withdrawn; do without it", "revoked")

    async def _delegated(self, arguments: Mapping[str, Any], context: RunContext) -> ToolResult:
        target = asked_bot(self._bots, context, _target(arguments)).name
        work = work_of(
            context,
            work_id(arguments),
            target,
            _message(arguments),
            tools=(),
            seconds=self._settings.step_timeout,
        )
        return result_of(await self._bots.answer(work), target)

    async def _collaborated(self, arguments: Mapping[str, Any], context: RunContext, sessions: Sessions) -> ToolResult:
        match arguments["action"]:
            case "discover":
                cards = self._bots.cards(context.principal, self._passed_on(context))
                return ToolResult(
                    content="\n".join(map(_described, cards)) or "there is no other bot",
                    structured=[_card(card) for card in cards],
                )
            case "end_session":
                return await self._ended(_text(arguments, "sessionId"), context, sessions)
            case _:
                return await self._sent(arguments, context, sessions)

    async def _sent(self, arguments: Mapping[str, Any], context: RunContext, sessions: Sessions) -> ToolResult:
        target, message = asked_bot(self._bots, context, _target(arguments)).name, _message(arguments)
        group = self._group(context) if arguments.get("visible") else None
        work = work_of(
            context,
            work_id(arguments),
            target,
            message,
            tools=self._passed_on(context),
            seconds=self._settings.step_timeout,
            reply_to=None if group is None else group.address,
        )
        session = str(arguments.get("sessionId", ""))
        entered = await sessions.enter(context.principal, target, work.id, session=session, visible=group is not None)
        try:
            if group is not None:
                await group.post(f"@{target} {message}", key=f"{work.id}/asked", sender=own_bot(context))
            answer = await self._bots.answer(replace(work, chat=session_chat(entered.session)))
            if group is not None and answer.status == "completed":
                await group.post(answer.text, key=f"{work.id}/reply", sender=target)
        finally:
            await sessions.leave(context.principal, target)
        note = _note(entered.session, entered.number, self._settings.rounds)
        return result_of(answer, target, session=entered.session, note=note)

    async def _ended(self, session: str, context: RunContext, sessions: Sessions) -> ToolResult:
        target = await sessions.end(context.principal, session)
        if self._parts.chats is not None:
            await self._parts.chats.delete(
                ChatKey(tenant=context.principal.tenant, bot=target, chat=session_chat(session))
            )
        return ToolResult(content=f"the session with {target} is over")

    def _passed_on(self, context: RunContext) -> tuple[str, ...]:
        return tools_of(context) if self._settings.target_tools else ()

    def _group(self, context: RunContext) -> Group:
        """Returns the group in which this run takes place. Raises `RequestError` if it takes place in none."""
        address, messenger = chat_of(context.injected), self._parts.messenger
        if address is None or messenger is None or not messenger.is_group(address):
            raise RequestError("visible needs a group chat, and this conversation is none; send without visible")
        return Group(messenger=messenger, address=address)


def _target(arguments: Mapping[str, Any]) -> str:
    """Returns the bot to ask, which a session names too. Raises `RequestError` if there is none, or two."""
    session = target_of(str(arguments.get("sessionId", "")))
    target = str(arguments.get("targetBotId", "")) or session
    if not target:
        raise RequestError("targetBotId is missing; name the bot to ask", param="targetBotId")
    if session and session != target:
        raise RequestError(f"the session is with {session[:64]}, not with {target[:64]}", param="sessionId")
    return target


def _message(arguments: Mapping[str, Any]) -> str:
    return _text(arguments, "message")


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = str(arguments.get(name, "")).strip()
    if not value:
        raise RequestError(f"{name} is missing", param=name)
    return value


def _note(session: str, number: int, most: int) -> str:
    more = "ask on with this sessionId" if number < most else "a pause follows"
    return f"\n\n(session {session}: answer {number} of {most}; {more})"


def _described(card: BotCard) -> str:
    about = [
        f"- {card.name}: {card.description or 'no description'}",
        f"  skills: {', '.join(card.skills) or 'none named'}",
        f"  tools that you both may use: {', '.join(card.tools) or 'none'}",
        f"  model: {card.model or 'the default'}",
    ]
    return "\n".join(about)


def _card(card: BotCard) -> dict[str, Any]:
    return {
        "name": card.name,
        "description": card.description,
        "skills": list(card.skills),
        "tools": list(card.tools),
        "model": card.model,
    }
