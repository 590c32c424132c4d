"""Remembers which untrusted tools a named conversation has read, in turns and in direct calls, so that all its later calls count
as tainted.

The record is apart from that of the sent tools (`conversations.py`), because it must not be lost or replaced: it is on disk
before the model reads an untrusted result, and of two turns at the same time neither forgets what the other has read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec

from toolcaddie.core.run import RunRequest, RunState, Transcript
from toolcaddie.core.schema import canonical_json
from toolcaddie.engine.engine import Checkpoint
from toolcaddie.ports import Store

_KIND = "read-untrusted"
"""Kind of the documents that name the untrusted tools of a conversation."""
_MOST = 200
"""The largest number of names in a document. The tools that were called last stay, so it never becomes empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrustedReading:
    """The untrusted tools that conversations have read, in `documents`, so that all processes know them.

    A name is added and never replaced, so that of two calls at the same time neither forgets the other's result. `ttl`: the
    seconds for which a conversation stays tainted after its last turn. `clock`: seconds since the epoch.
    """

    documents: Store
    ttl: float
    clock: Callable[[], float]

    async def of(self, request: RunRequest, *, seconds: float | None = None) -> tuple[str, ...]:
        """Returns the tools whose untrusted results the conversation has read in the last `seconds` (None: as long as they are
        stored); none if the request names no conversation."""
        name = conversation_name(request)
        if not name:
            return ()
        called = _decoded(await self.documents.get(_KIND, _key(request, name)))
        since = 0.0 if seconds is None else self.clock() - seconds
        return tuple(name for name, at in called.items() if at > since)

    async def add(self, request: RunRequest, names: Collection[str]) -> None:
        """Adds untrusted tools to the conversation; it is on disk before this returns."""
        name = conversation_name(request)
        if not names or not name:
            return
        key, now = _key(request, name), self.clock()
        while True:
            before = await self.documents.get(_KIND, key)
            called = {tool: at for tool, at in _decoded(before).items() if tool not in names} | dict.fromkeys(
                names, now
            )
            value = msgspec.json.encode(dict(list(called.items())[-_MOST:]))
            if await self.documents.compare_and_set(_KIND, key, value, expected=before, ttl=self.ttl):
                return

    async def renew(self, request: RunRequest) -> None:
        """Keeps what the conversation has read for `ttl` seconds from now on."""
        name = conversation_name(request)
        value = await self.documents.get(_KIND, _key(request, name)) if name else None
        if value is not None:  # if a call adds a name at this moment, that write renews it
            await self.documents.compare_and_set(_KIND, _key(request, name), value, expected=value, ttl=self.ttl)

    def checkpoint(self, request: RunRequest, known: Collection[str], then: Checkpoint) -> Checkpoint:
        """Returns a checkpoint for a run of the conversation. It adds the untrusted tools whose results the model is about to
        read, so that the conversation is tainted also if the run fails, pauses, or its process is killed.

        `known`: names that are stored already. `then`: the checkpoint that follows."""
        if not conversation_name(request):
            return then
        stored = set(known)

        async def store(state: RunState) -> None:
            new = [name for name in state.taint if name not in stored]
            if new:
                await self.add(request, new)
                stored.update(new)
            await then(state)

        return store


def conversation_name(request: RunRequest) -> str:
    """Returns the name that a conversation keeps in all its turns; empty: it has none, or is known by its messages."""
    identity = request.conversation
    return identity.name if isinstance(identity, Transcript) else identity or ""


def _decoded(value: bytes | None) -> dict[str, float]:
    return {} if value is None else msgspec.json.decode(value, type=dict[str, float])


def _key(request: RunRequest, name: str) -> str:
    window = [request.window] if request.window else []
    return hashlib.sha256(canonical_json([*request.principal.owner, name, *window])).hexdigest()
