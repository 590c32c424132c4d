"""Stores results that are too long to be sent, so that the model can read on for a while with `read_result`."""

from __future__ import annotations

import hashlib
import secrets

import msgspec

from toolcaddie.core.bounds import LARGE
from toolcaddie.core.control import Principal
from toolcaddie.core.meta_names import READ_LIMIT, READ_RESULT
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import Taint, Tool, ToolResult, failed
from toolcaddie.guards.aside import aside
from toolcaddie.guards.markers import excerpt
from toolcaddie.ports import CacheStore
from toolcaddie.util.text import valid_text

HELD_SECONDS = 3600.0
"""Default number of seconds for which a result is stored."""
HELD_BYTES = 8_000_000
"""Default of the largest size in bytes of a stored result."""


class _Held(msgspec.Struct, frozen=True, array_like=True):
    """A stored text. Older versions stored only the first two fields, so their texts count as untrusted."""

    text: str
    cut: bool
    """True: the end of the result is missing."""
    tool: str = READ_RESULT
    """The tool that returned the result."""
    untrusted: bool = True
    """True: strangers may have written the text."""


_DECODER = msgspec.msgpack.Decoder(_Held)


class HeldResults:
    """Stores texts under random handles, each for one principal: for anyone else the handle does not exist. A handle works in
    every conversation of the principal, so the text of an untrusted tool taints whoever reads it.

    In a `StoreCache` the texts outlive the process; a `MemoryCache` evicts the least recently used. The store must accept
    values slightly larger than `max_bytes`; both do so by default.
    """

    def __init__(self, store: CacheStore, *, seconds: float = HELD_SECONDS, max_bytes: int = HELD_BYTES) -> None:
        self._store = store
        self._seconds = seconds
        self._max_bytes = max_bytes

    async def hold(self, text: str, tool: Tool, principal: Principal) -> str | None:
        """Stores `text`, or its first `max_bytes` of UTF-8, and returns the handle; None: the store does not take it. `tool`: the
        tool that returned it.

        Raises `StorageError`.
        """
        arguments = text, tool, self._max_bytes
        value = _stored(*arguments) if len(text) < LARGE else await aside(_stored, *arguments)
        handle = secrets.token_hex(8)
        return handle if await self._store.put(_key(handle, principal), value, ttl=self._seconds) else None

    async def page(self, handle: str, offset: int, limit: int, principal: Principal) -> ToolResult:
        """Returns `limit` characters from `offset` on, with a note on reading further. Each page of a marked text has both
        markers, and text of an untrusted tool has the effect `Taint`. Raises `StorageError`.

        The result is failed if this principal has no such handle, or the text ends before that offset.
        """
        value = await self._store.get(_key(handle, principal))
        if value is None:
            return failed(f"There is no result {handle[:64]!r}: it may have expired. Call the tool again to get it.")
        held = _DECODER.decode(value)
        text = held.text
        if not 0 <= offset < len(text):
            return failed(
                f"offset: the result has the characters 0 to {len(text) - 1}, not {offset}", "invalid_arguments"
            )
        end = min(offset + max(1, min(limit, READ_LIMIT)), len(text))
        note = _place(handle, offset, end, len(text), cut=held.cut)
        return ToolResult(
            content=f"{excerpt(text, offset, end)}\n[{note}]",
            effect=Taint(names=(held.tool,)) if held.untrusted else None,
        )


def _stored(text: str, tool: Tool, most: int) -> bytes:
    """Returns what is stored of a text: its first `most` bytes."""
    part, cut = text[:most], len(text) > most
    if not part.isascii():
        start = valid_text(part).encode()
        part, cut = start[:most].decode(errors="ignore"), cut or len(start) > most
    return msgspec.msgpack.encode(_Held(text=part, cut=cut, tool=tool.name, untrusted=tool.untrusted))


def _place(handle: str, offset: int, end: int, total: int, *, cut: bool) -> str:
    place = f"characters {offset} to {end - 1} of {total}"
    if end < total:
        return f"{place}; read on with {READ_RESULT}, handle {handle!r}, offset {end}"
    return f"{place}; the result was longer, the rest was not kept" if cut else f"{place}; this is the end"


def _key(handle: str, principal: Principal) -> str:
    """Returns a key that depends on the principal, so that a handle of another caller is not found."""
    return hashlib.sha256(canonical_json([*principal.owner, handle])).hexdigest()
