"""Hidden parts of conversations: stored before an answer is sent, and restored in later requests.

Clients of a chat API send the whole conversation with every request. But if a run called tools of the gateway's catalog, the
client never received these calls and their results. They are the hidden part of the answer, which is stored under keys of the
answer and inserted into every later request that contains the answer. So the model sees its own calls, and the provider
finds the beginning of the conversation in its cache.

The key of an answer is made from what a client sends back. An answer that calls the client's tools has a key for each call, made
from the call's id, because clients may write the arguments differently. An answer in text has one key, a digest of the
conversation up to the answer. Some upstreams reuse ids like `call_0`, so the key of a short id includes a digest of the
conversation before it. All keys include the principal (the user or bot that the request is made for), so that nobody can reach
the hidden parts of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunResult
from toolcaddie.core.transcript import digest_of, empty_digest, extended, visible_answer, without_calls
from toolcaddie.engine.reveal import result_message
from toolcaddie.guards.aside import aside
from toolcaddie.ports import Store
from toolcaddie.util.bounded import Bounded, Limit
from toolcaddie.util.replacing import replace

_KIND = "hidden"
_TTL = 30 * 86_400.0
"""Seconds for which a hidden part is stored."""
_NO_PART = b""
"""Cached value for a key under which no part is stored."""
_UNIQUE_ID = 20
"""The smallest number of characters of a call's id that counts as unique."""
_MANY_MESSAGES = 500
"""Number of messages above which a conversation is processed in a thread, so that it does not delay other requests."""
_MANY_CHARACTERS = 1_000_000
"""Number of characters of all messages above which a conversation is processed in a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenPart:
    """The hidden part of one answer."""

    messages: tuple[Message, ...]
    """The messages that replace the visible answer. The last message has all of its calls, hidden and visible."""
    results: dict[str, Message]
    """The results of the last message's hidden calls, by the id of the call."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with its hidden parts, and the digests that identify it."""

    messages: tuple[Message, ...]
    digest: str
    """Digest of all visible messages."""
    answered: str | None
    """Digest of the messages up to the last answer, if there is one."""
    opening: str
    """Digest of the messages up to the first message of the user."""


class _VisibleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the client sent, the digest of the conversation up to it, and the keys under which its hidden part may be
    stored."""

    message: Message
    digest: str
    keys: tuple[str, ...]


class HiddenParts:
    """Stores and restores hidden parts. It caches the last `size` keys, including those without a part, and at most `weight`
    bytes of parts."""

    def __init__(self, documents: Store, *, size: int = 20_000, weight: int = 32 * 1024 * 1024) -> None:
        self._documents = documents
        self._cache: Bounded[str, bytes] = Bounded(size, Limit(weight, len))
        """Key -> hidden part as JSON; empty: there is none."""

    async def restore(self, messages: Sequence[Message], principal: Principal) -> Restored:
        """Returns the conversation with its hidden parts."""
        visible = (
            await aside(_visible_messages, messages, principal)
            if _is_long(messages)
            else _visible_messages(messages, principal)
        )
        keys = {key for item in visible for key in item.keys}
        stored = await self._parts_by_key(keys) if keys else {}
        assembly = _Assembly()
        for item in visible:
            part_json = next((stored[key] for key in item.keys if stored[key]), _NO_PART)
            assembly.add(item.message, msgspec.json.decode(part_json, type=HiddenPart) if part_json else None)
        answers = [item.digest for item in visible if item.message.role == "assistant"]
        openings = [item.digest for item in visible if item.message.role == "user"]
        digest = visible[-1].digest if visible else empty_digest(principal)
        return Restored(
            messages=assembly.finish(),
            digest=digest,
            answered=answers[-1] if answers else None,
            opening=openings[0] if openings else digest,
        )

    async def keep(self, result: RunResult, before: Restored, principal: Principal, *, shown: bool = False) -> None:
        """Stores the hidden part of an answer durably. `before`: the conversation that was answered. `shown`: the client receives
        the blocks of the provider and sends them back.

        The caller awaits this before it sends the end of the answer: the client may continue the conversation at once, and in
        another process.
        """
        visible = visible_answer(result)
        digest = extended(before.digest, visible)
        keys = _keys(visible, before.digest, digest, principal)
        part = _hidden_part(result, visible, shown=shown)
        for key in keys:
            if part is not None:
                value = msgspec.json.encode(part)
                await self._documents.put(_KIND, key, value, ttl=_TTL)
                self._cache.put(key, value)
            elif self._cache.peek(key):  # the same answer again, this time without a hidden part
                await self._documents.delete(_KIND, key)
                self._cache.put(key, _NO_PART)

    async def _parts_by_key(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Returns key -> hidden part as JSON, empty if there is none. Parts that are not cached are read with a single query."""
        cached = {key: self._cache.get(key) for key in keys}
        parts = {key: part for key, part in cached.items() if part is not None}
        missing = [key for key, part in cached.items() if part is None]
        if missing:
            stored = await self._documents.get_many(_KIND, missing)
            for key in missing:
                parts[key] = stored.get(key, _NO_PART)
                self._cache.put(key, parts[key])
        return parts


class _Assembly:
    """Assembles a conversation message by message. An answer with hidden calls waits for the client's results, so that all
    results can follow it in call order."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._part: HiddenPart | None = None
        self._visible_ids: set[str] = set()
        self._results: dict[str, Message] = {}
        self._waited = False
        """True: the last answer in text made calls that waited for a person."""

    def add(self, message: Message, part: HiddenPart | None) -> None:
        """Adds the next message of the client, with its hidden part if it has one."""
        ids = {call.id for call in message.tool_calls}
        if self._part is not None:
            if message.role == "tool":
                self._results[message.tool_call_id or ""] = message
                return
            if ids and ids <= {call.id for call in self._part.messages[-1].tool_calls}:
                self._visible_ids |= ids  # one answer that the client has split into several
                return
            self._settle()
        if part is None:
            self._messages.append(message)
        elif ids:
            self._part, self._visible_ids = part, ids
        else:
            if self._waited:
                self._messages = list(without_calls(self._messages, part.messages[0]))
            self._part, self._waited = part, bool(part.messages[-1].tool_calls)
            self._settle(message)

    def finish(self) -> tuple[Message, ...]:
        """Returns the whole conversation."""
        if self._part is not None:
            self._settle()
        return tuple(self._messages)

    def _settle(self, visible: Message | None = None) -> None:
        """Adds the waiting answer with those calls that have a result or are visible. It omits the other calls, because a
        provider refuses calls without a result. `visible`: the answer as the client saw it, which stands for one that made only
        calls for which a person's approval was needed."""
        assert self._part is not None
        *before, answer = self._part.messages
        own = self._part.results
        calls = tuple(call for call in answer.tool_calls if call.id in own or call.id in self._visible_ids)
        if visible is None or calls or not answer.tool_calls:
            visible = replace(answer, tool_calls=calls)
        self._messages += (*before, visible)
        for call in calls:
            if call.id in own:
                self._messages.append(own[call.id])
            elif call.id in self._results:
                self._messages.append(self._results.pop(call.id))
        self._messages += self._results.values()
        self._part, self._visible_ids, self._results = None, set(), {}


def _hidden_part(result: RunResult, visible: Message, *, shown: bool) -> HiddenPart | None:
    """Returns the hidden part of an answer; None if everything was visible."""
    new = result.messages
    own = {
        item.call.id: result_message(item.call, item.result, result.state)
        for item in result.state.pending
        if item.result is not None
    }
    # The model may have called a client's tool through `execute_tool`; the client sees the call of its own tool.
    unwrapped = bool(visible.tool_calls) and new[-1].tool_calls != visible.tool_calls
    more = own or len(new) > 1 or unwrapped or (new[-1].native and not shown)
    return HiddenPart(messages=new, results=own) if more else None


def _is_long(messages: Sequence[Message]) -> bool:
    """Returns True if processing the messages would delay other requests noticeably."""
    return len(messages) > _MANY_MESSAGES or sum(len(message.text) for message in messages) > _MANY_CHARACTERS


def _visible_messages(messages: Sequence[Message], principal: Principal) -> list[_VisibleMessage]:
    """Returns the client's messages with their digests. Only messages of the model have keys."""
    digest, visible = empty_digest(principal), []
    for message in messages:
        before, digest = digest, extended(digest, message)
        keys = _keys(message, before, digest, principal) if message.role == "assistant" else ()
        visible.append(_VisibleMessage(message=message, digest=digest, keys=keys))
    return visible


def _keys(message: Message, before: str, digest: str, principal: Principal) -> tuple[str, ...]:
    """Returns the keys of an answer: one for each call, or one for its text. `before` and `digest`: the digests of the
    conversation before the answer and up to it, both of which include the principal."""
    if not message.tool_calls:
        return (f"text-{digest}",)
    owner = empty_digest(principal)
    return tuple(
        f"call-{digest_of(owner, call.id) if len(call.id) >= _UNIQUE_ID else digest_of(before, call.id)}"
        for call in message.tool_calls
    )
