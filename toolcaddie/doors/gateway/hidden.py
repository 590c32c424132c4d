"""What a client never saw of its own conversation, put back where it was.

Clients of a chat API send the whole conversation again with every request, but of a turn in which hidden tools ran they
know only their own part. The hidden part (inner calls, their results) is kept when the answer goes out and spliced back
into every later request that carries that answer. So the model finds what it did, and the provider finds the prefix it
has cached.

An answer is found again by what the client sends back of it: by the ids of its calls, or, for an answer of text, by a
digest of the conversation up to it. All keys begin with the principal, so nobody can reach another's.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from toolcaddie.message import Message
from toolcaddie.ports import Documents
from toolcaddie.run import Principal, RunResult

_KIND = "hidden"
_TTL = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenPart:
    """What stands for one visible assistant message: the messages as the model knows them, the last of them with its
    calls, and the results of those calls that were ours."""

    messages: tuple[Message, ...]
    results: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A conversation with its hidden parts, and the digest of the visible one."""

    messages: tuple[Message, ...]
    digest: str
    answered: str | None
    """The digest up to the last answer in it, if there is one: the name of the conversation so far."""


class HiddenParts:
    """Keeps and restores. Answers without a hidden part are remembered too (`size` of both), so they cost one look-up."""

    def __init__(self, documents: Documents, *, size: int = 20_000) -> None:
        self._documents = documents
        self._size = size
        self._known: OrderedDict[str, bytes | None] = OrderedDict()

    async def restore(self, messages: Sequence[Message], principal: Principal) -> Restored:
        """The conversation as the model knows it."""
        whole: list[Message] = []
        running = _owner(principal)
        answered: str | None = None
        waiting: HiddenPart | None = None
        results: dict[str, Message] = {}
        for message in messages:
            if waiting is not None and message.role == "tool":
                results[message.tool_call_id or ""] = message
                running = _extended(running, message)
                continue
            if waiting is not None:
                whole += _results_in_call_order(waiting, results)
                waiting, results = None, {}
            running = _extended(running, message)
            if message.role != "assistant":
                whole.append(message)
                continue
            answered = running
            part = await self._part(_key(message, running, principal))
            if part is None:
                whole.append(message)
            elif message.tool_calls:
                whole += part.messages
                waiting = part
            else:
                whole += (*part.messages[:-1], message)
        if waiting is not None:
            whole += _results_in_call_order(waiting, results)
        return Restored(messages=tuple(whole), digest=running, answered=answered)

    async def keep(self, result: RunResult, visible: Message, before: Restored, principal: Principal) -> str:
        """Keep the hidden part of an answer, durably, and give the conversation's digest with it.

        To be awaited before the answer ends: a client may come back at once, and to another process.
        """
        digest = _extended(before.digest, visible)
        new = result.messages
        own = {item.call.id: item.result.content for item in result.state.pending if item.result is not None}
        if own or len(new) > 1 or (visible.tool_calls and new and new[-1].tool_calls != visible.tool_calls):
            part = HiddenPart(messages=new, results=own)
            value = msgspec.json.encode(part)
            key = _key(visible, digest, principal)
            await self._documents.put(_KIND, key, value, ttl=_TTL)
            self._note(key, value)
        return digest

    async def _part(self, key: str) -> HiddenPart | None:
        if key in self._known:
            self._known.move_to_end(key)
            stored = self._known[key]
        else:
            stored = await self._documents.get(_KIND, key)
            self._note(key, stored)
        return None if stored is None else msgspec.json.decode(stored, type=HiddenPart)

    def _note(self, key: str, value: bytes | None) -> None:
        self._known[key] = value
        if len(self._known) > self._size:
            self._known.popitem(last=False)


def visible_answer(result: RunResult, text: str | None) -> Message:
    """The answer as the client will send it back."""
    return Message(role="assistant", content=text, tool_calls=result.client_calls)


def _results_in_call_order(part: HiddenPart, theirs: dict[str, Message]) -> list[Message]:
    found = []
    for call in part.messages[-1].tool_calls:
        if call.id in theirs:
            found.append(theirs.pop(call.id))
        elif call.id in part.results:
            found.append(Message(role="tool", tool_call_id=call.id, content=part.results[call.id]))
    return [*found, *theirs.values()]


def _key(message: Message, digest: str, principal: Principal) -> str:
    if not message.tool_calls:
        return f"text-{digest}"
    seen = hashlib.blake2b(_owner(principal).encode(), digest_size=16)
    for call in message.tool_calls:
        seen.update(f"\n{call.id}\n{call.name}\n{call.arguments}".encode(errors="surrogatepass"))
    return f"calls-{seen.hexdigest()}"


def _owner(principal: Principal) -> str:
    return hashlib.blake2b(f"{principal.tenant}\n{principal.id}".encode(), digest_size=16).hexdigest()


def _extended(digest: str, message: Message) -> str:
    """The digest of a conversation with one more message: roles, words, calls; not what clients like to rewrite."""
    calls = "\n".join(f"{call.id} {call.name}" for call in message.tool_calls)
    text = f"{digest}\n{message.role}\n{message.text.strip()}\n{message.tool_call_id or ''}\n{calls}"
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
