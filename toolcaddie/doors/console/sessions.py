"""Sessions of people who have signed in to the console.

The browser has a random number in a cookie, and the store has everything else under the digest of that number, so that whoever
reads the database cannot take over a session. A session ends at a fixed time, when the person signs out, and when the API key is
revoked with which the person signed in.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.storage import ApiKey
from toolcaddie.ports import KeyStore, Store
from toolcaddie.util.replacing import replace

SESSION_SECONDS = 8 * 3600
"""Seconds after which a person must sign in again."""

CHANNEL = "console"
"""The channel of the principals of this door."""

_KIND = "console-session"
_BYTES = 32


class Session(Struct, frozen=True, kw_only=True):
    """A person who has signed in."""

    person: Principal
    key_id: str = ""
    """The API key with which the person signed in; empty: the server had no keys."""
    expires: float
    """Seconds since the epoch."""
    is_of_request: bool = False
    """True for the one request of a program, which has sent its API key with it."""


class Sessions:
    """Starts, finds and ends sessions. `clock`: seconds since the epoch."""

    def __init__(self, store: Store, keys: KeyStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._keys = keys
        self._clock = clock

    async def start(self, principal: Principal, key: ApiKey | None) -> str:
        """Returns the number of a new session, which nobody knew before. `key`: None where the server has no keys."""
        number = secrets.token_urlsafe(_BYTES)
        session = Session(
            person=replace(principal, channel=CHANNEL),
            key_id="" if key is None else key.id,
            expires=self._clock() + SESSION_SECONDS,
        )
        await self._store.put(_KIND, _name(number), msgspec.json.encode(session), ttl=SESSION_SECONDS)
        return number

    def of_request(self, principal: Principal, key: ApiKey | None) -> Session:
        """Returns the session of one request, which is stored nowhere."""
        person = replace(principal, channel=CHANNEL)
        key_id = "" if key is None else key.id
        return Session(person=person, key_id=key_id, expires=self._clock(), is_of_request=True)

    async def find(self, number: str) -> Session | None:
        """Returns the session with this number; None: there is none, or it has ended."""
        document = await self._store.get(_KIND, _name(number)) if number else None
        if document is None:
            return None
        session = msgspec.json.decode(document, type=Session)
        if self._clock() >= session.expires or not await self._is_allowed(session):
            await self.end(number)
            return None
        return session

    async def end(self, number: str) -> None:
        await self._store.delete(_KIND, _name(number))

    async def _is_allowed(self, session: Session) -> bool:
        """Returns True while the session's key is valid; without a key, while the server has none."""
        if not session.key_id:
            return not await self._keys.any()
        key = await self._keys.find(session.key_id)
        return key is not None and key.revoked is None


def _name(number: str) -> str:
    return hashlib.sha256(number.encode()).hexdigest()
