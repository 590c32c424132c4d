"""Results too long to be sent, kept for a while so that the model can read on."""

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
HELD_BYTES = 8_000_000

_DECODER = msgspec.msgpack.Decoder(tuple[str, bool])


class HeldResults:
    """Keeps texts under random handles, each for the one who asked for it: for anybody else there is no such handle.

    Over `storage.StoreCache` they outlive the process; over `storage.MemoryCache` the oldest make room. The store has to
    take values of `max_bytes` and a few more; both do as they come.
    """

    def __init__(self, store: CacheStore, *, seconds: float = HELD_SECONDS, max_bytes: int = HELD_BYTES) -> None:
        self._store = store
        self._seconds = seconds
        self._max_bytes = max_bytes

    async def hold(self, text: str, principal: Principal) -> str | None:
        """The handle to read `text` by, or its first `max_bytes` of UTF-8; None: the store does not take it.

        Raises `StorageError`.
        """
        start = valid_text(text[: self._max_bytes]).encode()
        kept = start[: self._max_bytes].decode(errors="ignore")
        cut = len(text) > self._max_bytes or len(start) > self._max_bytes
        handle = secrets.token_hex(8)
        value = msgspec.msgpack.encode((kept, cut))
        return handle if await self._store.put(_key(handle, principal), value, ttl=self._seconds) else None

    async def page(self, handle: str, offset: int, limit: int, principal: Principal) -> ToolResult:
        """`limit` characters from `offset` on, and how to read on. Raises `StorageError`.

        Failed where there is nothing of that handle for this principal, or nothing at that offset.
        """
        value = await self._store.get(_key(handle, principal))
        if value is None:
            return failed(
                f"There is no result {handle[:64]!r}: it may have expired. Call the tool again to get it anew."
            )
        text, cut = _DECODER.decode(value)
        if not 0 <= offset < len(text):
            return failed(
                f"offset: the result has the characters 0 to {len(text) - 1}, not {offset}", "invalid_arguments"
            )
        end = min(offset + max(1, min(limit, READ_LIMIT)), len(text))
        return ToolResult(content=f"{text[offset:end]}\n[{_place(handle, offset, end, len(text), cut=cut)}]")


def _place(handle: str, offset: int, end: int, total: int, *, cut: bool) -> str:
    here = f"characters {offset} to {end - 1} of {total}"
    if end < total:
        return f"{here}; read on with {READ_RESULT}, handle {handle!r}, offset {end}"
    return f"{here}; the result was longer, the rest was not kept" if cut else f"{here}; this is the end"


def _key(handle: str, principal: Principal) -> str:
    """The principal is part of the key, so a stranger's handle is found no more than one that never was."""
    return hashlib.sha256(canonical_json([*principal.owner, handle])).hexdigest()
