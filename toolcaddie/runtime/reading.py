"""Remembers which untrusted tools were called without a model, so that later calls of the same conversation count as tainted.

A run carries its taint in its state and in the record of its conversation. A direct call is a run of its own and has neither,
although its result is read by whoever makes the next call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec

from toolcaddie.core.run import RunRequest
from toolcaddie.core.schema import canonical_json
from toolcaddie.ports import Store

_KIND = "read-untrusted"
"""Kind of the documents that name the untrusted tools of a conversation."""
_TTL = 30 * 86_400.0
"""Seconds for which a conversation stays tainted after its last untrusted result."""
_MOST = 200
"""The largest number of names in a document. The tools that were called last stay, so it never becomes empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrustedReading:
    """The untrusted tools that direct calls of a conversation have run, in `documents`, so that all processes know them.

    A name is added and never replaced, so that of two calls at the same time neither forgets the other's result. `clock`: seconds
    since the epoch.
    """

    documents: Store
    clock: Callable[[], float]

    async def of(self, request: RunRequest, *, seconds: float | None = None) -> tuple[str, ...]:
        """Returns the tools whose untrusted results direct calls of the conversation returned in the last `seconds` (None: as
        long as they are stored); none if the request names no conversation."""
        if not isinstance(request.conversation, str):
            return ()
        called = _decoded(await self.documents.get(_KIND, _key(request)))
        since = 0.0 if seconds is None else self.clock() - seconds
        return tuple(name for name, at in called.items() if at > since)

    async def add(self, request: RunRequest, names: Collection[str]) -> None:
        """Adds untrusted tools to the conversation; it is on disk before this returns."""
        if not names or not isinstance(request.conversation, str):
            return
        key, now = _key(request), self.clock()
        while True:
            before = await self.documents.get(_KIND, key)
            called = {name: at for name, at in _decoded(before).items() if name not in names} | dict.fromkeys(
                names, now
            )
            value = msgspec.json.encode(dict(list(called.items())[-_MOST:]))
            if await self.documents.compare_and_set(_KIND, key, value, expected=before, ttl=_TTL):
                return


def _decoded(value: bytes | None) -> dict[str, float]:
    return {} if value is None else msgspec.json.decode(value, type=dict[str, float])


def _key(request: RunRequest) -> str:
    return hashlib.sha256(canonical_json([*request.principal.owner, request.conversation])).hexdigest()
