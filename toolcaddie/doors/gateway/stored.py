"""The store of responses of the Responses API, for `previous_response_id` and for the paths that show and delete responses.

A response belongs to the principal that asked for it; if the server has no keys, to everybody who sends the same upstream key.
The database keeps the input and the answer for the time in the settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.transcript import digest_of
from toolcaddie.doors.gateway.access import key_headers
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.ports import Store
from toolcaddie.wires import responses
from toolcaddie.wires.bodies import ENCODER, UNREADABLE

_KIND = "response"
_EVENTS = "response-events"
_LIVE = "response-live-events"
_LIVE_SECONDS = 3_600.0
"""Seconds for which events of a stream that goes on are stored; they are stored once more when it has ended."""
UNFINISHED = ("queued", "in_progress")
"""Statuses of a response that is still being made."""

Owner = tuple[str, ...]
"""The owner of stored objects, as part of their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response with all input that led to it, except what the upstream itself has stored under the id `upstream`."""

    input: Sequence[Any]
    response: JsonObject
    upstream: str = ""
    lease: int = 0
    """The number of the process that makes an unfinished response."""
    deferred: str = ""
    """The id of the deferred request that makes the response, in whatever process; empty: the process of the lease makes it."""

    @property
    def unfinished(self) -> bool:
        return self.response.get("status") in UNFINISHED


class StoredResponses:
    """Stores responses for `seconds`; None: nothing is stored."""

    def __init__(self, documents: Store, *, seconds: float | None) -> None:
        self._documents = documents
        self._seconds = seconds

    @property
    def enabled(self) -> bool:
        return self._seconds is not None

    async def get(self, response_id: str, owner: Owner) -> StoredResponse | None:
        value = await self._documents.get(_KIND, _key(response_id, owner))
        return None if value is None else _decoded(value)

    async def get_many(self, responses: Sequence[tuple[str, Owner]]) -> Mapping[tuple[str, Owner], StoredResponse]:
        """Returns those of the responses that exist, by id and owner."""
        keys = {_key(*each): each for each in responses}
        values = await self._documents.get_many(_KIND, keys)
        return {keys[key]: _decoded(value) for key, value in values.items()}

    async def put(self, stored: StoredResponse, owner: Owner) -> None:
        key = _key(stored.response["id"], owner)
        await self._documents.put(_KIND, key, ENCODER.encode(stored), ttl=self._seconds)

    async def change(self, before: StoredResponse, after: StoredResponse, owner: Owner) -> bool:
        """Stores `after` if `before` is still what is stored. Returns False otherwise."""
        key = _key(before.response["id"], owner)
        value, expected = ENCODER.encode(after), ENCODER.encode(before)
        return await self._documents.compare_and_set(_KIND, key, value, expected=expected, ttl=self._seconds)

    async def delete(self, response_id: str, owner: Owner) -> None:
        key = _key(response_id, owner)
        await self._documents.delete(_KIND, key)
        await self._documents.delete(_EVENTS, key)

    async def put_events(self, response_id: str, owner: Owner, events: bytes) -> None:
        """Stores the events of a stream as they were sent."""
        await self._documents.put(_EVENTS, _key(response_id, owner), events, ttl=self._seconds)

    async def put_live(self, response_id: str, owner: Owner, place: int, events: bytes, *, lease: int) -> None:
        """Stores events of a stream that goes on, for clients of other processes. `place`: that of the first one. `lease`: the
        number of the process that makes them."""
        key = _live_key(response_id, owner, lease, place)
        await self._documents.put(_LIVE, key, events, ttl=_LIVE_SECONDS)

    async def live(self, response_id: str, owner: Owner, place: int, *, lease: int) -> bytes | None:
        """Returns the events that were stored together, beginning at a place; None: they have not come yet."""
        return await self._documents.get(_LIVE, _live_key(response_id, owner, lease, place))

    async def events(self, response_id: str, owner: Owner) -> bytes | None:
        return await self._documents.get(_EVENTS, _key(response_id, owner))


def owner_of(exchange: Exchange, principal: Principal) -> Owner:
    """Returns the owner of the responses that a request makes: its principal, and the client's own upstream key."""
    sent_keys = (exchange.headers.get(name, b"").decode("latin-1") for name in key_headers(responses.WIRE.name))
    return (*principal.owner, *(digest_of(key) for key in sent_keys if "tc_" not in key))


def items_of(raw: bytes) -> list[Any]:
    """Returns the field `input` of a request as items. The wire refuses an input of another form."""
    try:
        value = msgspec.json.decode(raw)
    except UNREADABLE:
        return []
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return value if isinstance(value, list) else []


def _key(response_id: str, owner: Owner) -> str:
    return digest_of(*owner, response_id)


def _live_key(response_id: str, owner: Owner, lease: int, place: int) -> str:
    return f"{_key(response_id, owner)}-{lease}-{place}"


def _decoded(value: bytes) -> StoredResponse:
    return msgspec.json.decode(value, type=StoredResponse)
