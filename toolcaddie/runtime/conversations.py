"""Conversations, kept from one turn to the next: the tools that each was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from toolcaddie.core.delivery import DeliveredTool
from toolcaddie.core.meta_names import READ_RESULT
from toolcaddie.core.run import RunRequest, RunResult, RunState, Transcript
from toolcaddie.core.transcript import next_name
from toolcaddie.ports import Store
from toolcaddie.runtime.background import Background

_KIND = "conversation"
_TTL = 7 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The tools that a conversation was sent so far."""

    delivered: tuple[DeliveredTool, ...]
    meta: bool
    """Meta tools were among it."""
    categories: tuple[str, ...] = ()
    """Those a first stage named."""
    allowed: tuple[str, ...] | None = None
    reads: bool = False
    """A result was cut, so that `read_result` joined the array."""
    at: float | None = None
    """The time at which the provider was last sent it, in seconds since the epoch; None: the caller keeps the conversation. Other
    processes read it, so it is taken from a wall clock; if that is set back, a cold prompt cache counts as a warm one."""


class Conversations:
    """Keeps them in `documents`, each for its owner: no one reaches another's by guessing its name.

    Written behind the answer: losing one costs a colder prompt cache, never an answer. A client may be back with its next turn
    sooner than that, so what is on its way is found too.
    """

    def __init__(self, documents: Store, background: Background, *, clock: Callable[[], float]) -> None:
        self._documents = documents
        self._background = background
        self._clock = clock
        self._unwritten: dict[str, Conversation] = {}

    async def before(self, request: RunRequest) -> Conversation | None:
        """Returns what the conversation was sent before this request, as the caller says or as it was kept; None: nothing."""
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

    def keep(self, request: RunRequest, result: RunResult) -> None:
        """Keeps what the conversation was sent by now, under the name that its next turn will have."""
        identity = request.conversation
        if not identity or not request.remember:
            return
        key = _key(request, next_name(identity, result) if isinstance(identity, Transcript) else identity)
        conversation = self._unwritten[key] = _conversation(result.state, at=self._clock())
        self._background.begin(self._write(key, conversation))

    async def _write(self, key: str, conversation: Conversation) -> None:
        try:
            await self._documents.put(_KIND, key, msgspec.json.encode(conversation), ttl=_TTL, urgent=False)
        finally:
            if self._unwritten.get(key) is conversation:
                del self._unwritten[key]


def _conversation(state: RunState, *, at: float) -> Conversation:
    return Conversation(
        delivered=state.delivered,
        meta=any(name != READ_RESULT for name in state.meta),
        categories=state.categories,
        allowed=state.allowed,
        reads=READ_RESULT in state.meta,
        at=at,
    )


def _key(request: RunRequest, name: str) -> str:
    # As JSON, so that no tenant, id or name reaches into its neighbour. Conversations kept before, under the three joined by
    # newlines, are not found by it: their next turn pays for a cold prompt cache, once.
    return json.dumps([*request.principal.owner, name])
