"""The pages of the playground."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec

from toolcaddie.app.build import Assembled
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, RunNotFoundError
from toolcaddie.doors.console.answers import Answer, EventStream, Reply, redirect
from toolcaddie.doors.console.callers import PRESET_NAMES, Callers, preset_in
from toolcaddie.doors.console.playground.chats import Chat, Chats, Turn
from toolcaddie.doors.console.playground.talking import Talking
from toolcaddie.doors.console.playground.telling import Piece
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.doors.gateway.limiting import Limiter

PATH = f"{HOME}playground"
PAGE = 20
LONGEST_MESSAGE = 20_000
_LONGEST_MODEL = 200
_STREAM = b"text/event-stream"


def playground_section(parts: Assembled) -> Section:
    """Returns the section."""
    return Section(
        title="Playground", path=PATH, routes=lambda renderer: _Playground(parts, renderer).routes, level="operator"
    )


class _Playground:
    def __init__(self, parts: Assembled, renderer: Renderer) -> None:
        self._runtime = parts.runtime
        self._models = _models(parts)
        self._chats = Chats(parts.documents)
        self._callers = Callers(parts.runtime, parts.keys)
        limiter = Limiter(parts.meter, parts.runtime, defaults=parts.key_limits)
        self._talking = Talking(parts.runtime, self._chats, limiter)
        self._renderer = renderer

    @property
    def routes(self) -> Sequence[PageRoute]:
        one = f"{PATH}/{{chat}}"
        return (
            PageRoute(method="GET", path=PATH, handle=self._list),
            PageRoute(method="POST", path=f"{PATH}/begin", handle=self._begin),
            PageRoute(method="GET", path=one, handle=self._show),
            PageRoute(method="POST", path=f"{one}/say", handle=self._say),
            PageRoute(method="POST", path=f"{one}/refuse", handle=self._refuse),
            PageRoute(method="POST", path=f"{one}/continue", handle=self._continue),
            PageRoute(method="POST", path=f"{one}/delete", handle=self._delete),
        )

    async def _list(self, visit: Visit) -> Answer:
        after = visit.request.query.get("after") or None
        page = await self._chats.list(visit.person, cursor=after, limit=PAGE)
        rows = [
            {
                "id": chat.id,
                "title": chat.title,
                "created": chat.created,
                "bot": chat.bot,
                "model": chat.model,
                "messages": len(chat.turns),
            }
            for chat in page.chats
        ]
        return self._renderer.page(
            "playground/list.html",
            visit,
            {"chats": rows, "next": page.cursor},
            path=PATH,
            bots=await self._callers.bots_of(visit),
            presets=PRESET_NAMES,
            models=self._models,
            default_model=self._runtime.default_model,
            longest=LONGEST_MESSAGE,
            is_later=after is not None,
            next_path=f"{PATH}?after={quote(page.cursor, safe='')}" if page.cursor else "",
        )

    async def _begin(self, visit: Visit) -> Reply:
        """Begins a conversation with a first message."""
        message, bot = _message(visit), visit.form.get("bot", "")
        await self._callers.caller_of(visit, bot)
        preset, model = preset_in(visit.form.get("preset", "")) or "", visit.form.get("model", "").strip()
        if len(model) > _LONGEST_MODEL:
            raise RequestError(f"the name of a model has at most {_LONGEST_MODEL} characters", param="model")
        chat = await self._chats.begin(visit.person, bot=bot, model=model, preset=preset)
        return await self._said(visit, chat.id, message)

    async def _show(self, visit: Visit) -> Answer:
        chat = await self._chats.find(visit.person, visit.part)
        last = chat.turns[-1] if chat.turns else None
        questions = await self._questions(last) if last is not None and last.status == "waits" else ()
        data = {"chat": chat, "questions": questions}
        return self._renderer.page(
            "playground/chat.html",
            visit,
            data,
            path=_path_of(chat.id),
            list_path=PATH,
            home_path=HOME,
            is_open=any(question.status == "open" for question in questions),
            arguments={question.id: _pretty(question.arguments) for question in questions},
            longest=LONGEST_MESSAGE,
        )

    async def _questions(self, turn: Turn) -> Sequence[Approval]:
        """Returns the questions for whose answers a turn waits; none if its run has ended meanwhile."""
        with suppress(RunNotFoundError):
            return await self._runtime.questions(turn.run)
        return ()

    async def _say(self, visit: Visit) -> Reply:
        return await self._said(visit, visit.part, _message(visit))

    async def _said(self, visit: Visit, chat_id: str, message: str) -> Reply:
        chat, caller = await self._caller(visit, chat_id)
        _, turn = await self._chats.add(visit.person, chat_id, message)
        key = await self._callers.key_of(visit)
        try:
            pieces = await self._talking.answer(caller, key, chat, turn)
        except RequestError as error:
            failed = msgspec.structs.replace(turn, status="failed", error=str(error))
            await self._chats.put(visit.person, chat_id, failed)
            raise
        return await _told(visit, chat_id, pieces)

    async def _refuse(self, visit: Visit) -> Reply:
        """Refuses a call about which the model's work made the server ask. Nobody approves a call of their own, so approving is
        left to others, on the page of all questions."""
        turn = await self._waiting(visit)
        approval = visit.form.get("approval", "")
        if approval not in turn.approvals:
            raise RequestError("this conversation does not wait for an answer to this question", code="changed")
        person = visit.person
        await self._runtime.approvals.answer(
            person.tenant, approval, approved=False, by=person, reason=visit.form.get("reason", "")[:2_000]
        )
        if any(question.status == "open" for question in await self._questions(turn)):
            return redirect(f"{_path_of(visit.part)}#last")
        return await self._resumed(visit, turn)

    async def _continue(self, visit: Visit) -> Reply:
        """Goes on with an answer whose questions others have answered."""
        turn = await self._waiting(visit)
        if any(question.status == "open" for question in await self._questions(turn)):
            raise RequestError("a question of this answer is still open", code="changed")
        return await self._resumed(visit, turn)

    async def _resumed(self, visit: Visit, turn: Turn) -> Reply:
        chat, caller = await self._caller(visit, visit.part)
        pieces = await self._talking.resume(caller, await self._callers.key_of(visit), chat, turn)
        return await _told(visit, visit.part, pieces)

    async def _delete(self, visit: Visit) -> Answer:
        await self._chats.delete(visit.person, visit.part)
        return redirect(PATH)

    async def _waiting(self, visit: Visit) -> Turn:
        """Returns the last turn. Raises `RequestError` unless it waits."""
        chat = await self._chats.find(visit.person, visit.part)
        if not chat.turns or chat.turns[-1].status != "waits":
            raise RequestError("this conversation waits for nobody", code="changed")
        return chat.turns[-1]

    async def _caller(self, visit: Visit, chat_id: str) -> tuple[Chat, Principal]:
        chat = await self._chats.find(visit.person, chat_id)
        return chat, await self._callers.caller_of(visit, chat.bot)


async def _told(visit: Visit, chat_id: str, pieces: AsyncIterator[Piece]) -> Reply:
    """Returns the pieces of an answer to the script of a page as they come; to everybody else, the page with the whole answer."""
    if _STREAM in visit.request.headers.get(b"accept", b""):
        return EventStream(events=_encoded(_path_of(chat_id), pieces))
    async for _ in pieces:
        pass
    return redirect(f"{_path_of(chat_id)}#last")


async def _encoded(path: str, pieces: AsyncIterator[Piece]) -> AsyncGenerator[bytes, None]:
    yield msgspec.json.encode({"kind": "begin", "path": path})
    async for piece in pieces:
        yield msgspec.json.encode(piece)


def _message(visit: Visit) -> str:
    message = visit.form.get("message", "").strip()
    if not message:
        raise RequestError("write a message", param="message")
    if len(message) > LONGEST_MESSAGE:
        raise RequestError(f"a message has at most {LONGEST_MESSAGE:,} characters", param="message")
    return message


def _models(parts: Assembled) -> Sequence[str]:
    """Returns the models that the settings name, for suggestions; a person may write any other."""
    gateway, bots = parts.settings.gateway, parts.settings.bots.values()
    names = [parts.runtime.default_model, gateway.default_model, *gateway.aliases, *(bot.model for bot in bots)]
    return [name for name in dict.fromkeys(names) if name]


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")


def _path_of(chat_id: str) -> str:
    return f"{PATH}/{quote(chat_id, safe='')}"
