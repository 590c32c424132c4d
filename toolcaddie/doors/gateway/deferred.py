"""A deferred request: it was handed in, its client does not wait, and any process with the same database may answer it.

What is stored is what a process needs to answer it as if it had just come: never a key of the client. Requests that are answered
with a client's own upstream key are not deferred.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import Reservation
from toolcaddie.core.storage import ApiKey
from toolcaddie.core.transcript import digest_of
from toolcaddie.doors.gateway.exchange import Exchange, Send
from toolcaddie.doors.gateway.router import Caller
from toolcaddie.doors.gateway.stored import Owner
from toolcaddie.guards.proofs import PROOFS
from toolcaddie.ports import Store
from toolcaddie.ports.wires import DoorWire
from toolcaddie.util.replacing import replace

_KIND = "deferred-request"
_UNFINISHED_SECONDS = 7 * 86_400.0
"""Seconds for which a request without an answer is stored; the queue forgets it then too."""
_NOT_STORED = frozenset({*(name.encode() for name in PROOFS), b"prefer", b"idempotency-key", b"content-length"})
"""Headers that are not stored: proofs of an identity, and those whose meaning ends when the request is accepted."""


class DeferredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as its client gets it."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content: bytes


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """The use that counts against the limits of an API key. `given`: the estimated tokens of the input."""

    model: str
    given: int
    reservation: Reservation | None


class Deferred(msgspec.Struct, frozen=True, kw_only=True):
    """A deferred request as it is stored, with its answer once there is one."""

    id: str
    owner: Owner
    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    client: str | None
    body: bytes
    context: Mapping[str, str]
    """Values of `Exchange.context` that the request had when it was accepted."""
    principal: Principal
    key: ApiKey | None
    by_bot: bool
    charge: Charge | None
    background: bool = False
    """True: its answer is a background response, which is stored elsewhere."""
    accepted: float
    attempts: int = 0
    """The number of processes that have begun it."""
    answer: DeferredAnswer | None = None

    @property
    def caller(self) -> Caller:
        return Caller(principal=self.principal, key=self.key, by_bot=self.by_bot)

    def exchange(self, send: Send, *, wire: DoorWire, bounds: Bounds, context: Mapping[str, Any]) -> Exchange:
        """Returns the request as it came. `send` takes the answer. `context`: more values for `Exchange.context`."""
        scope: MutableMapping[str, Any] = {"path": self.path, "headers": self.headers, "query_string": self.query}
        exchange = Exchange.without_client(scope, send, wire=wire, bounds=bounds)
        exchange.client = self.client
        exchange.context.update(self.context, **context)
        return exchange


def deferred_of(
    exchange: Exchange,
    *,
    request_id: str,
    owner: Owner,
    body: bytes,
    caller: Caller,
    charge: Charge | None,
    background: bool = False,
) -> Deferred:
    """Returns the request of an exchange in the form in which it is stored. `body`: as it is to be answered."""
    return Deferred(
        id=request_id,
        owner=owner,
        path=exchange.path,
        query=exchange.query,
        headers=tuple((name, value) for name, value in exchange.headers.items() if name not in _NOT_STORED),
        client=exchange.client,
        body=body,
        context={name: value for name, value in exchange.context.items() if isinstance(value, str)},
        principal=caller.principal,
        key=caller.key,
        by_bot=caller.by_bot,
        charge=charge,
        background=background,
        accepted=time.time(),
    )


class DeferredRequests:
    """The stored requests, by id and owner. Their answers are stored for `seconds`."""

    def __init__(self, documents: Store, *, seconds: float) -> None:
        self._documents = documents
        self._seconds = seconds

    async def get(self, request_id: str, owner: Owner) -> Deferred | None:
        return await self.at(key_of(request_id, owner))

    async def at(self, key: str) -> Deferred | None:
        stored = await self._documents.get(_KIND, key)
        return None if stored is None else _decode(stored)

    async def put(self, request: Deferred) -> None:
        key = key_of(request.id, request.owner)
        await self._documents.put(_KIND, key, _encode(request), ttl=_UNFINISHED_SECONDS)

    async def change(self, before: Deferred, after: Deferred) -> bool:
        """Stores `after` if `before` is still what is stored. Returns False otherwise: its client has deleted it."""
        ttl = _UNFINISHED_SECONDS if after.answer is None else self._seconds
        key, value = key_of(before.id, before.owner), _encode(after)
        return await self._documents.compare_and_set(_KIND, key, value, expected=_encode(before), ttl=ttl)

    async def end(self, request: Deferred, answer: DeferredAnswer) -> bool:
        """Stores the answer in the place of the request. Returns False if its client has deleted it."""
        return await self.change(request, replace(request, answer=answer, body=b"", headers=(), charge=None))

    async def delete(self, request: Deferred) -> None:
        await self._documents.delete(_KIND, key_of(request.id, request.owner))


def key_of(request_id: str, owner: Owner) -> str:
    """Returns the key of the document of a request; only its owner can name it."""
    return digest_of(*owner, request_id)


def prefers_async(headers: Mapping[bytes, bytes]) -> bool:
    """Returns True if a request prefers not to wait for its answer (RFC 7240)."""
    preferences = headers.get(b"prefer", b"").split(b",")
    return any(each.partition(b";")[0].strip().lower() == b"respond-async" for each in preferences)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Deferred).decode
