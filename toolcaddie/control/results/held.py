"""Stores results that are too long to be sent, so that the model can read on for a while with `read_result`."""

from __future__ import annotations

import hashlib
import secrets

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.meta_names import READ_LIMIT, READ_RESULT
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.ports import CacheStore
from toolcaddie.util.text import valid_text

HELD_SECONDS = 3600.0
"""Default number of seconds for which a result is stored."""
HELD_BYTES = 8_000_000
"""Default of the largest size in bytes of a stored result."""

_DECODER = msgspec.msgpack.Decoder(tuple[str, bool])
"""Decodes a stored value: the text, and whether its end is missing."""


class HeldResults:
    """Stores texts under random handles, each for one principal: for anyone else the handle does not exist.

    In a `StoreCache` the texts outlive the process; a `MemoryCache` evicts the least recently used. The store must accept
    values slightly larger than `max_bytes`; both do so by default.
    """

    def __init__(self, store: CacheStore, *, seconds: float = HELD_SECONDS, max_bytes: int = HELD_BYTES) -> None:
        self._store = store
        self._seconds = seconds
        self._max_bytes = max_bytes

    async def hold(self, text: str, principal: Principal) -> str | None:
        """Stores `text`, or its first `max_bytes` of UTF-8, and returns the handle; None: the store does not take it.

        Raises `StorageError`.
        """
        start = valid_text(text[: self._max_bytes]).encode()
        part = start[: self._max_bytes].decode(errors="ignore")
        cut = len(text) > self._max_bytes or len(start) > self._max_bytes
        handle = secrets.token_hex(8)
        value = msgspec.msgpack.encode((part, cut))
        return handle if await self._store.put(_key(handle, principal), value, ttl=self._seconds) else None

    async def page(self, handle: str, offset: int, limit: int, principal: Principal) -> ToolResult:
        """Returns `limit` characters from `offset` on, with a note on reading further. Raises `StorageError`.

        The result is failed if this principal has no such handle, or the text ends before that offset.
        """
        value = await self._store.get(_key(handle, principal))
        if value is None:
            return failed(f"There is no result {handle[:64]!r}: it may have expired. Call the tool again to get it.")
        text, cut = _DECODER.decode(value)
        if not 0 <= offset < len(text):
            return failed(
                f"offset: the result has the characters 0 to {len(text) - 1}, not {offset}", "invalid_arguments"
            )
        end = min(offset + max(1, min(limit, READ_LIMIT)), len(text))
        return ToolResult(content=f"{text[offset:end]}\n[{_place(handle, offset, end, len(text), cut=cut)}]")


def _place(handle: str, offset: int, end: int, total: int, *, cut: bool) -> str:
    place = f"characters {offset} to {end - 1} of {total}"
    if end < total:
        return f"{place}; read on with {READ_RESULT}, handle {handle!r}, offset {end}"
    return f"{place}; the result was longer, the rest was not kept" if cut else f"{place}; this is the end"


def _key(handle: str, principal: Principal) -> str:
    """Returns a key that depends on the principal, so that a handle of another caller is not found."""
    return hashlib.sha256(canonical_json([*principal.owner, handle])).hexdigest()
