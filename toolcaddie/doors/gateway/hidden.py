"""What a client never saw of its own conversation, put back where it was.

Clients of a chat API send the whole conversation again with every request, but of a turn in which hidden tools ran they
know only their own part. The hidden part (inner calls, their results) is kept when the answer goes out and spliced back
into every later request that carries that answer. So the model finds what it did, and the provider finds the prefix it
has cached.

An answer is found again by what a client sends back of it: each of its calls by its id, whatever became of the arguments'
spelling; an answer of text by a digest of the conversation up to it. Some upstreams use ids like `call_0` again and again,
so a short id counts only behind the same conversation. All keys begin with the principal: nobody can reach another's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunResult
from toolcaddie.core.transcript import digest_of, empty_digest, extended, visible_answer
from toolcaddie.engine.reveal import result_message
from toolcaddie.guards.aside import aside
from toolcaddie.ports import Store
from toolcaddie.util.replacing import replace

_KIND = "hidden"
_TTL = 30 * 86_400.0
_UNIQUE_ID = 20
"""Providers that make unique ids make them at least this long."""
_MANY, _MUCH = 500, 1_000_000
"""Messages, and characters of them all, that are gone through on the spot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenPart:
    """What stands for one visible answer: the messages as the model knows them, the last of them with its calls, and the
    results of those calls that were ours."""

    messages: tuple[Message, ...]
    results: dict[str, Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A conversation with its hidden parts, and what it is known by."""

    messages: tuple[Message, ...]
    digest: str
    """Of all that is visible."""
    answered: str | None
    """Up to the last answer in it, if there is one: the conversation so far."""
    opening: str
    """Up to the first message of the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A visible message, the digest before it and with it, and the keys its hidden part would have."""

    message: Message
    digest: str
    keys: tuple[str, ...]


class HiddenParts:
    """Keeps and restores. What was looked up is remembered, answers without a hidden part too: the last `size` keys, and
    at most `weight` bytes of parts."""

    def __init__(self, documents: Store, *, size: int = 20_000, weight: int = 32 * 1024 * 1024) -> None:
        self._documents = documents
        self._size = size
        self._weight = weight
        self._known: OrderedDict[str, bytes | None] = OrderedDict()

    async def restore(self, messages: Sequence[Message], principal: Principal) -> Restored:
        """The conversation as the model knows it."""
        seen = await aside(_seen, messages, principal) if _is_long(messages) else _seen(messages, principal)
        stored = await self._stored({key for item in seen for key in item.keys})
        whole = _Whole()
        for item in seen:
            found = next((stored[key] for key in item.keys if stored.get(key) is not None), None)
            whole.add(item.message, None if found is None else msgspec.json.decode(found, type=HiddenPart))
        answers = [item.digest for item in seen if item.message.role == "assistant"]
        openings = [item.digest for item in seen if item.message.role == "user"]
        digest = seen[-1].digest if seen else empty_digest(principal)
        return Restored(
            messages=whole.done(),
            digest=digest,
            answered=answers[-1] if answers else None,
            opening=openings[0] if openings else digest,
        )

    async def keep(self, result: RunResult, before: Restored, principal: Principal) -> None:
        """Keep the hidden part of an answer, durably.

        To be awaited before the answer ends: a client may come back at once, and to another process.
        """
        visible = visible_answer(result)
        digest = extended(before.digest, visible)
        keys = _keys(visible, before.digest, digest, principal)
        part = _hidden_part(result, visible)
        for key in keys:
            if part is not None:
                value = msgspec.json.encode(part)
                await self._documents.put(_KIND, key, value, ttl=_TTL)
                self._note(key, value)
            elif self._known.get(key) is not None:  # the same words once more, and this time nothing behind them
                await self._documents.delete(_KIND, key)
                self._note(key, None)

    async def _stored(self, keys: Iterable[str]) -> dict[str, bytes | None]:
        """The parts under these keys: what is remembered, and the rest in one look."""
        found: dict[str, bytes | None] = {}
        missing: list[str] = []
        for key in keys:
            if key in self._known:
                self._known.move_to_end(key)
                found[key] = self._known[key]
            else:
                missing.append(key)
        if missing:
            stored = await self._documents.get_many(_KIND, missing)
            for key in missing:
                found[key] = stored.get(key)
                self._note(key, found[key])
        return found

    def _note(self, key: str, value: bytes | None) -> None:
        self._weight += len(self._known.pop(key, None) or b"")
        self._known[key] = value
        self._weight -= len(value or b"")
        while len(self._known) > 1 and (len(self._known) > self._size or self._weight < 0):
            _, forgotten = self._known.popitem(last=False)
            self._weight += len(forgotten or b"")


class _Whole:
    """Puts a conversation together message by message. An answer with hidden calls waits for the client's results, so
    that all results can stand in call order behind it."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._part: HiddenPart | None = None
        self._shown: set[str] = set()
        self._results: dict[str, Message] = {}

    def add(self, message: Message, part: HiddenPart | None) -> None:
        ids = {call.id for call in message.tool_calls}
        if self._part is not None:
            if message.role == "tool":
                self._results[message.tool_call_id or ""] = message
                return
            if ids and ids <= {call.id for call in self._part.messages[-1].tool_calls}:
                self._shown |= ids  # one answer that the client has split into several
                return
            self._settle()
        if part is None:
            self._messages.append(message)
        elif ids:
            self._part, self._shown = part, ids
        else:
            self._messages += part.messages

    def done(self) -> tuple[Message, ...]:
        if self._part is not None:
            self._settle()
        return tuple(self._messages)

    def _settle(self) -> None:
        """The waiting answer with the calls that are answered or still shown; a provider refuses a call without either."""
        assert self._part is not None
        *before, answer = self._part.messages
        own = self._part.results
        kept = tuple(call for call in answer.tool_calls if call.id in own or call.id in self._shown)
        self._messages += (*before, replace(answer, tool_calls=kept))
        for call in kept:
            if call.id in own:
                self._messages.append(own[call.id])
            elif call.id in self._results:
                self._messages.append(self._results.pop(call.id))
        self._messages += self._results.values()
        self._part, self._shown, self._results = None, set(), {}


def _hidden_part(result: RunResult, visible: Message) -> HiddenPart | None:
    """None where the client has seen all there was."""
    new = result.messages
    own = {
        item.call.id: result_message(item.call, item.result, result.state)
        for item in result.state.pending
        if item.result is not None
    }
    unwrapped = bool(visible.tool_calls) and new[-1].tool_calls != visible.tool_calls
    more = own or len(new) > 1 or unwrapped or new[-1].native
    return HiddenPart(messages=new, results=own) if more else None


def _is_long(messages: Sequence[Message]) -> bool:
    """Whether going through them takes long enough for every other request to notice."""
    return len(messages) > _MANY or sum(len(message.text) for message in messages) > _MUCH


def _seen(messages: Sequence[Message], principal: Principal) -> list[_Seen]:
    running, seen = empty_digest(principal), []
    for message in messages:
        before, running = running, extended(running, message)
        keys = _keys(message, before, running, principal) if message.role == "assistant" else ()
        seen.append(_Seen(message=message, digest=running, keys=keys))
    return seen


def _keys(message: Message, before: str, digest: str, principal: Principal) -> tuple[str, ...]:
    if not message.tool_calls:
        return (f"text-{digest}",)
    owner = empty_digest(principal)
    return tuple(
        f"call-{digest_of(owner, call.id) if len(call.id) >= _UNIQUE_ID else digest_of(before, call.id)}"
        for call in message.tool_calls
    )
