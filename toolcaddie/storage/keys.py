"""The API keys of the gateway's clients. A secret is shown once, on creation; only its digest is stored."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Row, bindparam, insert, or_, select, update

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.storage import ApiKey
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import api_keys
from toolcaddie.storage.writer import Writer, outcome
from toolcaddie.util.replacing import replace

T = TypeVar("T")

SECRET_PREFIX = "tc_"
"""Beginning of every secret."""

_SECRET_BYTES = 32
"""Number of random bytes in a secret."""
_HINT_LENGTH = len(SECRET_PREFIX) + 4
"""Number of characters of a secret that lists show."""
_NAME_LENGTH = 64
"""Largest number of characters of a key's name."""
_FRESH_SECONDS = 1.0
"""Seconds for which an answer of the database is used again."""
_CACHED = 10_000
"""Largest number of cached keys."""
_USED_SECONDS = 60.0
"""Shortest time in seconds between two writes of a key's `last_used`."""

_NO_LIMITS: Mapping[str, float | None] = MappingProxyType({})

_BY_DIGEST = select(api_keys).where(api_keys.c.digest == bindparam("digest"), api_keys.c.revoked.is_(None))
_BY_ID = select(api_keys).where(api_keys.c.id == bindparam("of_key"))
_ANY = select(api_keys.c.id).limit(1)


class ApiKeys:
    """Implements `ports.KeyStore` on the database.

    A live key is cached for a second, so that a busy gateway does not query the database for every request; a key
    revoked by another process is refused a second later at most.

    `clock` returns seconds since the epoch, which are stored. `steady` returns seconds that never go back: every age is
    measured with it, so that a clock set back does not make an old answer look fresh.
    """

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._steady = steady
        self._checked: dict[str, tuple[float, ApiKey]] = {}
        """Digest of a secret -> moment it was read (steady), and its key."""
        self._used: dict[str, float] = {}
        """Id of a key -> moment this process last wrote its `last_used` (steady)."""
        self._exist: tuple[float, bool] | None = None
        """Moment of the last read (steady), and whether there was any key."""
        self._reads: dict[str, asyncio.Task[Any]] = {}
        """Reads that are under way, by digest, and under an empty text the one of `any`."""

    async def add(
        self, name: str, principal: Principal, *, limits: Mapping[str, float | None] = _NO_LIMITS
    ) -> tuple[ApiKey, str]:
        """Makes a key and its secret. Raises `RequestError` for a name that is taken or invalid."""
        if not name.strip() or len(name) > _NAME_LENGTH or not name.isprintable():
            raise RequestError(f"a key's name is 1 to {_NAME_LENGTH} printable characters, not {name!r}", param="name")
        secret = SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        key = ApiKey(
            id=f"key_{secrets.token_hex(6)}",
            name=name,
            principal=principal,
            created=self._clock(),
            hint=secret[:_HINT_LENGTH],
            limits=limits,
        )
        await outcome(self._writer.submit(lambda connection: _insert(connection, key, _digest(secret))))
        self._forget()
        return key, secret

    async def list(self) -> Sequence[ApiKey]:
        """Returns all keys, revoked ones too, in the order of creation."""
        rows = await self._reader.all(select(api_keys).order_by(api_keys.c.created, api_keys.c.id))
        return [_key(row) for row in rows]

    async def find(self, key_id: str) -> ApiKey | None:
        rows = await self._reader.all(_BY_ID, of_key=key_id)
        return _key(rows[0]) if rows else None

    async def revoke(self, id_or_name: str) -> ApiKey:
        """Revokes a key for ever. Raises `RequestError` if there is no such key; repeating it changes nothing."""
        now = self._clock()
        key = await outcome(self._writer.submit(lambda connection: _revoke(connection, id_or_name, now)))
        self._forget()
        return key

    async def limit(self, id_or_name: str, limits: Mapping[str, float | None]) -> ApiKey:
        """Replaces the key's own limits. Raises `RequestError` if there is no such key."""
        key = await outcome(self._writer.submit(lambda connection: _limit(connection, id_or_name, limits)))
        self._forget()
        return key

    async def check(self, secret: str) -> ApiKey | None:
        """Returns the live key with this secret; None: there is none, or it was revoked."""
        digest = _digest(secret)
        read_at, key = self._checked.get(digest, (0.0, None))
        if key is None or self._steady() - read_at >= _FRESH_SECONDS:
            key = await self._joined(digest, lambda: self._read(digest))
        if key is not None:
            self._note_use(key)
        return key

    async def any(self) -> bool:
        if self._exist is None or self._steady() - self._exist[0] >= _FRESH_SECONDS:
            return await self._joined("", self._read_any)
        return self._exist[1]

    async def _read_any(self) -> bool:
        read_at = self._steady()
        exist = bool(await self._reader.all(_ANY))
        self._exist = read_at, exist
        return exist

    async def _joined(self, name: str, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns what a read returns. Requests that need the same one at the same time share it: a busy client would otherwise
        cause a hundred of them in each second, and everybody else would wait for these."""
        task: asyncio.Task[T] | None = self._reads.get(name)
        if task is None:
            task = asyncio.create_task(read())
            self._reads[name] = task
            task.add_done_callback(lambda done: self._end_read(name, done))
        return await asyncio.shield(task)

    def _end_read(self, name: str, task: asyncio.Task[Any]) -> None:
        if self._reads.get(name) is task:
            del self._reads[name]

    async def _read(self, digest: str) -> ApiKey | None:
        """Returns the live key with this digest from the database, and caches it; None: there is none."""
        self._checked.pop(digest, None)
        read_at = self._steady()
        rows = await self._reader.all(_BY_DIGEST, digest=digest)
        # The index looks keys up by digest, whose bytes a client cannot steer, so timing reveals nothing about a secret;
        # the comparison in constant time keeps that true whatever the database does.
        if not rows or not hmac.compare_digest(rows[0].digest, digest):
            return None
        if len(self._checked) >= _CACHED:
            self._checked.clear()
        key = _key(rows[0])
        self._checked[digest] = read_at, key
        return key

    def _note_use(self, key: ApiKey) -> None:
        """Writes `last_used` once a minute at most, without waiting: people read it, no decision depends on it."""
        now, noted_at = self._steady(), self._used.get(key.id)
        if noted_at is not None and now - noted_at < _USED_SECONDS:
            return
        self._used[key.id] = now
        statement = update(api_keys).where(api_keys.c.id == key.id).values(last_used=self._clock())
        self._writer.submit(lambda connection: connection.execute(statement).rowcount, urgent=False)

    def _forget(self) -> None:
        self._checked.clear()
        self._reads.clear()
        self._exist = None


def _digest(secret: str) -> str:
    # A plain fast hash is right: the secret is 256 random bits, so there is nothing to guess. Slow hashes are for
    # passwords that people choose.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _insert(connection: Connection, key: ApiKey, digest: str) -> None:
    """Inserts a key. Raises `RequestError` if its name is taken."""
    if connection.execute(select(api_keys.c.id).where(api_keys.c.name == key.name)).first():
        raise RequestError(
            f"there is a key named {key.name!r} already (a revoked one keeps its name); choose another name",
            param="name",
            code="name_taken",
        )
    principal = key.principal
    connection.execute(
        insert(api_keys).values(
            id=key.id,
            name=key.name,
            digest=digest,
            hint=key.hint,
            principal=principal.id,
            bot=principal.bot,
            role=principal.role,
            tenant=principal.tenant,
            created=key.created,
            limits=_text(key.limits),
        )
    )


def _revoke(connection: Connection, id_or_name: str, now: float) -> ApiKey:
    """Revokes a key at the moment `now` and returns it. Raises `RequestError` if there is no such key."""
    key = _named(connection, id_or_name)
    if key.revoked is not None:
        return key
    connection.execute(update(api_keys).where(api_keys.c.id == key.id).values(revoked=now))
    return replace(key, revoked=now)


def _limit(connection: Connection, id_or_name: str, limits: Mapping[str, float | None]) -> ApiKey:
    """Writes the limits of a key and returns it. Raises `RequestError` if there is no such key."""
    key = _named(connection, id_or_name)
    connection.execute(update(api_keys).where(api_keys.c.id == key.id).values(limits=_text(limits)))
    return replace(key, limits=dict(limits))


def _named(connection: Connection, id_or_name: str) -> ApiKey:
    """Returns a key. Raises `RequestError` if there is no such key."""
    statement = select(api_keys).where(or_(api_keys.c.id == id_or_name, api_keys.c.name == id_or_name))
    row = connection.execute(statement).first()
    if row is None:
        raise RequestError(f"there is no key {id_or_name!r}; `toolcaddie keys list` shows them", code="key_not_found")
    return _key(row)


def _text(limits: Mapping[str, float | None]) -> str | None:
    return msgspec.json.encode(limits).decode() if limits else None


def _key(row: Row[Any]) -> ApiKey:
    """Returns the key of a row."""
    return ApiKey(
        id=row.id,
        name=row.name,
        principal=Principal(id=row.principal, bot=row.bot, role=row.role, tenant=row.tenant),
        created=row.created,
        revoked=row.revoked,
        last_used=row.last_used,
        hint=row.hint,
        limits=msgspec.json.decode(row.limits) if row.limits else {},
    )
