"""The conversations of people in the console, stored for each person alone."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.core.message import Message
from toolcaddie.ports import Store
from toolcaddie.util.replacing import replace

_KIND = "console-chat"
_SECONDS = 30 * 86_400.0
"""Seconds for which a conversation is stored after its last message."""
MOST_TURNS = 100
_TRIES = 10
_LAST_MOMENT = 1 << 48
"""A number of milliseconds that is never reached. Ids begin with the distance from it, so the newest conversation comes first."""

Status = Literal["running", "completed", "waits", "failed", "stopped"]
Outcome = Literal["called", "done", "failed", "waits"]


class Step(Struct, frozen=True, kw_only=True):
    """A tool that was called for an answer."""

    id: str
    tool: str
    arguments: str
    outcome: Outcome
    text: str = ""
    """Its result, or the reason why it was not called."""
    seconds: float = 0.0


class Turn(Struct, frozen=True, kw_only=True):
    """A message of the person, and its answer."""

    id: str
    message: str
    at: float
    """Seconds since the epoch."""
    status: Status = "running"
    run: str = ""
    text: str = ""
    """The answer."""
    error: str = ""
    steps: tuple[Step, ...] = ()
    tools: tuple[str, ...] = ()
    """The first of the tools that the model was sent."""
    sent: int = 0
    """Number of tools that the model was sent."""
    visible: int = 0
    """Number of tools that were chosen from."""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    approvals: tuple[str, ...] = ()
    """The questions for whose answers it waits."""


class Chat(Struct, frozen=True, kw_only=True):
    """A conversation."""

    id: str
    created: float
    bot: str = ""
    model: str = ""
    preset: str = ""
    turns: tuple[Turn, ...] = ()

    @property
    def title(self) -> str:
        return self.turns[0].message[:100] if self.turns else ""

    def turn(self, turn_id: str) -> Turn:
        """Returns a turn. Raises `RequestError` if there is none of this id."""
        turn = next((turn for turn in self.turns if turn.id == turn_id), None)
        if turn is None:
            raise RequestError("this conversation has no such message", code="unknown_page")
        return turn

    def messages(self, last: str) -> Sequence[Message]:
        """Returns the conversation so far as a model reads it, with a last message."""
        messages: list[Message] = []
        for turn in self.turns:
            if turn.text and turn.status in ("completed", "stopped"):
                messages.append(Message(role="user", content=turn.message))
                messages.append(Message(role="assistant", content=turn.text))
        return [*messages, Message(role="user", content=last)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPage:
    """Conversations of a person, the newest first."""

    chats: Sequence[Chat]
    cursor: str | None
    """None: there are no more."""


class Chats:
    """Stores conversations. `clock`: seconds since the epoch."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def begin(self, person: Principal, *, bot: str, model: str, preset: str) -> Chat:
        """Stores a new conversation."""
        now = self._clock()
        chat_id = f"{_LAST_MOMENT - int(now * 1000):012x}{secrets.token_hex(6)}"
        chat = Chat(id=chat_id, created=now, bot=bot, model=model, preset=preset)
        await self._store.put(_KIND, _key(person, chat_id), msgspec.json.encode(chat), ttl=_SECONDS)
        return chat

    async def list(self, person: Principal, *, cursor: str | None, limit: int) -> ChatPage:
        """Returns a page of the person's conversations."""
        page = await self._store.scan(_KIND, prefix=_prefix(person), cursor=cursor, limit=limit)
        return ChatPage(chats=[_chat(document.value) for document in page.documents], cursor=page.cursor)

    async def find(self, person: Principal, chat_id: str) -> Chat:
        """Returns a conversation of a person. Raises `RequestError` if there is none of this id."""
        document = await self._store.get(_KIND, _key(person, chat_id))
        if document is None:
            raise RequestError("you have no such conversation", code="unknown_page")
        return _chat(document)

    async def delete(self, person: Principal, chat_id: str) -> None:
        await self._store.delete(_KIND, _key(person, chat_id))

    async def add(self, person: Principal, chat_id: str, message: str) -> tuple[Chat, Turn]:
        """Adds a message, whose answer begins. Returns the conversation before it. Raises `RequestError` for a conversation that
        is full."""
        turn = Turn(id=secrets.token_hex(8), message=message, at=self._clock())

        def added(chat: Chat) -> Chat:
            if len(chat.turns) >= MOST_TURNS:
                raise RequestError(f"this conversation has {MOST_TURNS} messages; begin a new one", code="limit")
            return replace(chat, turns=(*chat.turns, turn))

        return await self._change(person, chat_id, added), turn

    async def put(self, person: Principal, chat_id: str, turn: Turn) -> None:
        """Replaces a turn by its next state. Does nothing if the conversation was deleted."""

        def changed(chat: Chat) -> Chat:
            return replace(chat, turns=tuple(turn if each.id == turn.id else each for each in chat.turns))

        try:
            await self._change(person, chat_id, changed)
        except RequestError:
            return

    async def _change(self, person: Principal, chat_id: str, change: Callable[[Chat], Chat]) -> Chat:
        """Changes a conversation, also while other requests change it. Returns it as it was."""
        key = _key(person, chat_id)
        for _ in range(_TRIES):
            document = await self._store.get(_KIND, key)
            if document is None:
                raise RequestError("you have no such conversation", code="unknown_page")
            before = _chat(document)
            value = msgspec.json.encode(change(before))
            if await self._store.compare_and_set(_KIND, key, value, expected=document, ttl=_SECONDS):
                return before
        raise StorageError("the conversation is changed by too many requests at once; try again")


def _chat(document: bytes) -> Chat:
    return msgspec.json.decode(document, type=Chat)


def _prefix(person: Principal) -> str:
    return hashlib.sha256("\0".join(person.owner).encode()).hexdigest() + "/"


def _key(person: Principal, chat_id: str) -> str:
    known = chat_id if chat_id.isalnum() and chat_id.isascii() else hashlib.sha256(chat_id.encode()).hexdigest()
    return f"{_prefix(person)}{known[:64]}"
