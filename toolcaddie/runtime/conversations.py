"""Remembers for each conversation which tools it was sent, so that the next turn can send them in the same places and the
provider's prompt cache stays valid, and which untrusted tools it has read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from toolcaddie.core.delivery import DeliveredTool
from toolcaddie.core.meta_names import READ_RESULT, RUN_PROGRAM
from toolcaddie.core.run import RunRequest, RunResult, RunState, Transcript
from toolcaddie.core.transcript import next_name
from toolcaddie.ports import Store
from toolcaddie.runtime.background import Background
from toolcaddie.runtime.reading import UntrustedReading
from toolcaddie.util.replacing import replace

_KIND = "conversation"
"""Kind of the documents that contain conversations."""
_TTL = 7 * 86_400.0
"""Seconds for which a conversation is stored after its last turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The tools that a conversation was sent so far."""

    delivered: tuple[DeliveredTool, ...]
    meta: bool
    """True if meta tools that find tools were sent with the tools."""
    programs: bool = False
    """True if the model was offered to write programs."""
    categories: tuple[str, ...] = ()
    """The categories that a first stage named for the last turn."""
    allowed: tuple[str, ...] | None = None
    """Names of the tools that the model may call, if a mask restricts the sent tools; None: it may call all."""
    reads: bool = False
    """True if a result was cut, so that `read_result` was added to the array."""
    taint: tuple[str, ...] = ()
    """Tools whose untrusted results the conversation contains."""
    waiting: str = ""
    """The run that waits for a person's approval; empty: none waits."""
    at: float | None = None
    """The time of the last request to the provider, in seconds since the epoch; None: unknown, because the caller and not
    Toolcaddie remembers the conversation. Other processes read this time, so it comes from a wall clock; if that clock is set
    back, an expired prompt cache counts as a valid one."""


class Conversations:
    """Stores conversations in `documents`, each under its owner, so that nobody reaches the conversation of another owner by
    guessing its name.

    A conversation is written after the answer was returned. If the write is lost, the next turn only costs more tokens. A client
    may send its next turn before the write has ended, so conversations that are still being written are found too.
    """

    def __init__(self, documents: Store, background: Background, *, clock: Callable[[], float]) -> None:
        self._documents = documents
        self._background = background
        self._clock = clock
        self._unwritten: dict[str, Conversation] = {}
        self._direct = UntrustedReading(documents=documents, clock=clock)
        """What direct calls of a named conversation have read."""

    async def before(self, request: RunRequest) -> Conversation | None:
        """Returns what the conversation was sent before this request, from the request itself or from the store; None: nothing is
        known."""
        stored = await self._stored(request)
        direct = await self._direct.of(request)
        if not direct:
            return stored
        before = Conversation(delivered=(), meta=False) if stored is None else stored
        return replace(before, taint=tuple(dict.fromkeys((*before.taint, *direct))))

    async def taint(self, request: RunRequest, *, seconds: float | None = None) -> Sequence[str]:
        """Returns the tools whose untrusted results a named conversation has read: in its turns, and in direct calls of the last
        `seconds` (None: in all of them)."""
        if not isinstance(request.conversation, str):
            return ()
        stored = await self._stored(request)
        turns = () if stored is None else stored.taint
        return tuple(dict.fromkeys((*turns, *await self._direct.of(request, seconds=seconds))))

    async def keep_direct(self, request: RunRequest, state: RunState) -> None:
        """Stores which untrusted tool a direct call has run, before its result is returned."""
        await self._direct.add(request, [name for name in state.taint if name in state.called])

    async def _stored(self, request: RunRequest) -> Conversation | None:
        """Returns what the turns of the conversation were sent; None: nothing is known."""
        if request.delivered:  # the caller does not say whether meta tools were sent; conversations begin with them
            return Conversation(delivered=tuple(request.delivered), meta=True)
        identity = request.conversation
        name = identity.previous_name if isinstance(identity, Transcript) else identity
        if not name:
            return None
        key = _key(request, name)
        if key in self._unwritten:
            return self._unwritten[key]
        stored = await self._documents.get(_KIND, key)
        return None if stored is None else msgspec.json.decode(stored, type=Conversation)

    async def keep(self, request: RunRequest, result: RunResult) -> None:
        """Stores what the conversation has been sent by now, under the name that its next turn will have. Only the conversation
        of a run that waits for a person is stored before the answer is returned."""
        identity = request.conversation
        if not identity or not request.remember:
            return
        key = _key(request, next_name(identity, result) if isinstance(identity, Transcript) else identity)
        conversation = self._unwritten[key] = _conversation(result.state, at=self._clock())
        if conversation.waiting:
            await self._write(key, conversation)
        else:
            self._background.begin(self._write(key, conversation))

    async def _write(self, key: str, conversation: Conversation) -> None:
        try:
            await self._documents.put(_KIND, key, msgspec.json.encode(conversation), ttl=_TTL, urgent=False)
        finally:
            if self._unwritten.get(key) is conversation:
                del self._unwritten[key]


def _conversation(state: RunState, *, at: float) -> Conversation:
    """Returns what a conversation has been sent by the end of a run. `at`: the present time in seconds since the epoch."""
    return Conversation(
        delivered=state.delivered,
        meta=any(name not in (READ_RESULT, RUN_PROGRAM) for name in state.meta),
        programs=RUN_PROGRAM in state.meta,
        categories=state.categories,
        allowed=state.allowed,
        reads=READ_RESULT in state.meta,
        taint=state.taint,
        waiting=state.run_id if state.status == "pending" else state.waits_for,
        at=at,
    )


def _key(request: RunRequest, name: str) -> str:
    # As JSON, so that no tenant, id or name reaches into its neighbour. Conversations kept before, under the three joined by
    # newlines, are not found by it: their next turn pays for a cold prompt cache, once.
    return json.dumps([*request.principal.owner, name])
