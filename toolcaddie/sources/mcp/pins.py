"""Pinned definitions of MCP servers. The definitions of the first contact are pinned by their digests. If the server changes one
later, or adds one, the tool is in quarantine: it is neither offered nor called until a person accepts the definition."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.core.errors import StorageError
from toolcaddie.ports import Store
from toolcaddie.sources.mcp.definitions import Definition, digest_of
from toolcaddie.sources.mcp.server import NewTools

KIND = "mcp-pins"
"""Kind of the documents in the store; the key is the name of the server."""
_TRIES = 20
"""The largest number of attempts to write a document that other processes write at the same time."""


class Pin(Struct, frozen=True, kw_only=True):
    """The accepted definition of a tool, and another one that waits."""

    digest: str
    """Empty: the tool is new, and no definition of it has been accepted."""
    description: str = ""
    since: float = 0.0
    """Seconds since the epoch."""
    waiting: str = ""
    """Digest of the changed or new definition; empty: there is none."""
    waiting_description: str = ""
    waiting_since: float = 0.0


class Pins(Struct, frozen=True, kw_only=True):
    """All pins of a server."""

    tools: dict[str, Pin] = {}

    @property
    def quarantined(self) -> Mapping[str, Pin]:
        return {name: pin for name, pin in self.tools.items() if pin.waiting}


def with_definitions(pins: Pins, definitions: Sequence[Definition], new_tools: NewTools, now: float) -> Pins:
    """Returns the pins after the server has sent these definitions. Changed ones wait, and new ones too unless `new_tools` allows
    them or this is the first contact. A tool that the server no longer lists keeps its pin, so it cannot come back changed."""
    listed, is_known = {each.key for each in definitions}, any(pin.digest for pin in pins.tools.values())
    tools = {key: pin for key, pin in pins.tools.items() if pin.digest or key in listed}
    for each in definitions:
        digest, pin = digest_of(each), tools.get(each.key, Pin(digest=""))
        if not pin.digest and (new_tools == "allow" or not is_known):
            tools[each.key] = Pin(digest=digest, description=each.description, since=now)
        elif digest == pin.digest:
            tools[each.key] = replace(pin, waiting="", waiting_description="", waiting_since=0.0)
        elif digest != pin.waiting:
            tools[each.key] = replace(pin, waiting=digest, waiting_description=each.description, waiting_since=now)
    return Pins(tools=tools) if tools != pins.tools else pins


def accepted(pins: Pins, name: str | None, now: float) -> Pins:
    """Returns the pins with the waiting definition of a tool accepted; None: of all tools."""
    tools = {
        key: Pin(digest=pin.waiting, description=pin.waiting_description, since=now)
        if pin.waiting and name in (None, key)
        else pin
        for key, pin in pins.tools.items()
    }
    return Pins(tools=tools)


class PinStore:
    """Pins in the store. Without a store they are in memory and last as long as this object."""

    def __init__(self, store: Store | None, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._memory: dict[str, bytes] = {}

    async def read(self, server: str) -> Pins:
        return _decoded(await self._get(server), server)

    async def see(self, server: str, definitions: Sequence[Definition], new_tools: NewTools) -> Pins:
        """Pins definitions, or notes that they wait for a person. Returns all pins."""
        return await self._change(server, lambda pins: with_definitions(pins, definitions, new_tools, self._clock()))

    async def accept(self, server: str, name: str | None = None) -> Sequence[str]:
        """Accepts the waiting definition of a tool, or of all tools. Returns the names of the accepted ones."""
        before = await self.read(server)
        await self._change(server, lambda pins: accepted(pins, name, self._clock()))
        return [key for key in before.quarantined if name in (None, key)]

    async def forget(self, server: str) -> None:
        """Removes all pins of a server, so that its next definitions count as first seen."""
        self._memory.pop(server, None)
        if self._store is not None:
            await self._store.delete(KIND, server)

    async def _change(self, server: str, change: Callable[[Pins], Pins]) -> Pins:
        for _ in range(_TRIES):
            current = await self._get(server)
            pins = _decoded(current, server)
            changed = change(pins)
            if changed == pins or await self._set(server, msgspec.json.encode(changed), current):
                return changed
        raise StorageError(
            f"the pins of the MCP server {server!r} are written by too many processes at once; try again"
        )

    async def _get(self, server: str) -> bytes | None:
        return self._memory.get(server) if self._store is None else await self._store.get(KIND, server)

    async def _set(self, server: str, value: bytes, expected: bytes | None) -> bool:
        if self._store is not None:
            return await self._store.compare_and_set(KIND, server, value, expected=expected)
        self._memory[server] = value
        return True


def _decoded(document: bytes | None, server: str) -> Pins:
    if document is None:
        return Pins()
    try:
        return msgspec.json.decode(document, type=Pins)
    except msgspec.MsgspecError as error:
        raise StorageError(f"the pins of the MCP server {server!r} cannot be read: {error}") from error


def shown_pins(pins: Pins) -> Sequence[dict[str, Any]]:
    """Returns the quarantined tools, for JSON output and tables."""
    return [
        {
            "tool": name,
            "new": not pin.digest,
            "pinned": pin.digest,
            "changed": pin.waiting,
            "since": pin.waiting_since,
            "description": pin.description,
            "changed_description": pin.waiting_description,
        }
        for name, pin in pins.quarantined.items()
    ]
