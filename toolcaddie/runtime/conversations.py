"""Remembers for each conversation which tools it was sent, so that the next turn can send them in the same places and the
provider's prompt cache stays valid, and which untrusted tools it has read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec

from toolcaddie.core.approval import EXPIRY_SECONDS
from toolcaddie.core.delivery import DeliveredTool
from toolcaddie.core.meta_names import READ_RESULT, RUN_PROGRAM
from toolcaddie.core.run import RunRequest, RunResult, RunState, Transcript
from toolcaddie.core.transcript import next_name
from toolcaddie.engine.engine import Checkpoint, not_stored
from toolcaddie.ports import Store
from toolcaddie.runtime.background import Background
from toolcaddie.runtime.reading import UntrustedReading, conversation_name
from toolcaddie.storage.names import MAX_KEY
from toolcaddie.util.replacing import replace

_KIND = "conversation"
"""Kind of the documents that contain conversations."""
_TTL = EXPIRY_SECONDS
"""Shortest time in seconds for which a conversation is stored after its last turn: as long as its hidden parts, and as a question
to a person is valid."""


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

    Everything is stored for `ttl` seconds after the last turn, and for at least 30 days: the sent tools, the run that waits, and
    the taint.

    An untainted conversation is written after the answer was returned. If that write is lost, the next turn does not know the
    sent tools, the mask and the categories of the last one: the provider's prompt cache begins anew, and a first stage chooses
    again. This costs tokens and changes nothing that the caller may do. What must not be lost is written before the answer ends:
    that a run waits for a person, and the taint. The taint of a named conversation is written apart (`reading.py`), and awaited
    only if it grew; that of a conversation known by its messages is awaited with each tainted turn, because each turn gives the
    conversation another name. A client may send its next turn before a write has ended, so conversations that are still being
    written are found too.
    """

    def __init__(
        self, documents: Store, background: Background, *, clock: Callable[[], float], ttl: float = _TTL
    ) -> None:
        self._documents = documents
        self._background = background
        self._clock = clock
        self._ttl = max(ttl, _TTL)
        self._unwritten: dict[str, Conversation] = {}
        self._reading = UntrustedReading(documents=documents, ttl=self._ttl, clock=clock)
        """What named conversations have read, in turns and direct calls."""

    async def before(self, request: RunRequest) -> Conversation | None:
        """Returns what the conversation was sent before this request, from the request itself or from the store; None: nothing is
        known."""
        stored = await self._stored(request)
        read = await self._reading.of(request)
        if not read:
            return stored
        before = Conversation(delivered=(), meta=False) if stored is None else stored
        return replace(before, taint=tuple(dict.fromkeys((*before.taint, *read))))

    async def taint(self, request: RunRequest, *, seconds: float | None = None) -> Sequence[str]:
        """Returns the tools whose untrusted results a named conversation has read: in its turns, and in direct calls of the last
        `seconds` (None: in all of them)."""
        if not isinstance(request.conversation, str):
            return ()
        stored = await self._stored(request)
        turns = () if stored is None else stored.taint
        return tuple(dict.fromkeys((*turns, *await self._reading.of(request, seconds=seconds))))

    def checkpoint(self, request: RunRequest, known: Collection[str] = (), then: Checkpoint = not_stored) -> Checkpoint:
        """Returns the checkpoint of a run, which stores the taint of a named conversation as soon as it grows. See
        `UntrustedReading.checkpoint`."""
        return self._reading.checkpoint(request, known, then)

    async def add_taint(self, request: RunRequest, names: Collection[str]) -> None:
        """Adds untrusted tools to what a named conversation has read; it is on disk before this returns."""
        await self._reading.add(request, names)

    async def keep_reading(self, request: RunRequest, state: RunState) -> None:
        """Stores what a named conversation has read by the end of a run. A direct call adds the tool that it has run: what its
        caller has read elsewhere is not of this conversation. A run adds its whole taint, also that of the caller's messages.

        If everything is known, only the time of the last turn is new, and nothing waits for it."""
        if not state.taint or not conversation_name(request):
            return
        if state.without_model:
            new = [name for name in state.taint if name in state.called]
        else:
            known = await self._reading.of(request)
            new = [name for name in state.taint if name not in known]
        if new:
            await self._reading.add(request, new)
        else:
            self._background.begin(self._reading.renew(request))

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
        """Stores what the conversation has been sent and has read by now, under the name that its next turn will have."""
        await self.keep_reading(request, result.state)
        identity = request.conversation
        if not identity or not request.remember:
            return
        key = _key(request, next_name(identity, result) if isinstance(identity, Transcript) else identity)
        conversation = self._unwritten[key] = _conversation(result.state, at=self._clock())
        if conversation.waiting or (conversation.taint and not conversation_name(request)):
            await self._write(key, conversation, urgent=True)
        else:
            self._background.begin(self._write(key, conversation, urgent=False))

    async def _write(self, key: str, conversation: Conversation, *, urgent: bool) -> None:
        try:
            value = msgspec.json.encode(conversation)
            await self._documents.put(_KIND, key, value, ttl=self._ttl, urgent=urgent)
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
    key = json.dumps([*request.principal.owner, name, *([request.window] if request.window else [])])
    return key if len(key) <= MAX_KEY else hashlib.sha256(key.encode()).hexdigest()
