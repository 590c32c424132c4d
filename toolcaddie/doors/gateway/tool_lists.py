"""Reads and caches the tool lists that clients of the gateway send with their requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.doors.gateway.essential import NO_FACTS, ToolFacts
from toolcaddie.doors.gateway.untrusted import NO_NAMES, UntrustedNames
from toolcaddie.util.bounded import Bounded, Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTools:
    """A client's tools and facts about them. Two requests with the same bytes of JSON get the same objects, so that values
    computed from a list can be cached by the list's identity."""

    tools: tuple[Tool, ...] = ()
    facts: ToolFacts = NO_FACTS
    own_forms: Mapping[str, JsonObject] = field(default_factory=dict)
    """`Tool.own_form` of the tools that have one, by name."""
    size: int = 0
    """Bytes of the list as the client sent it."""


NO_CLIENT_TOOLS = ClientTools()

_SAMPLE = 48
"""Number of bytes in the middle and at the end of a list by which it is found, before all its bytes are compared."""


class ToolLists:
    """Reads each list once, with `read_tools` of a wire (API format), because clients send the same tools with every request.

    It caches the lists that were used last, up to `size` lists and `weight` bytes of JSON. The cached tools take about eight
    times as much memory as their JSON. The class is thread-safe. `untrusted`: the tools that are marked as untrusted.
    """

    def __init__(
        self,
        read_tools: Callable[[bytes, Bounds], Sequence[Tool]],
        size: int = 256,
        weight: int = 16 * 1024 * 1024,
        *,
        bounds: Bounds = DEFAULT,
        untrusted: UntrustedNames = NO_NAMES,
    ) -> None:
        self._read_tools = read_tools
        self._bounds = bounds
        self._untrusted = untrusted
        self._lists: Bounded[bytes, ClientTools] = Bounded(size, Limit(weight, _size))
        self._keys: Bounded[tuple[int, bytes, bytes], bytes] = Bounded(size, Limit(weight, len))
        """Length, middle and end of a key -> the key itself, whose hash is known. To hash a list of hundreds of tools takes ten
        times as long as to compare it."""

    def read(self, raw: bytes, more: Sequence[Tool] = ()) -> ClientTools:
        """Returns the tools of a list. `raw`: the field `tools` of the request, as JSON. `more`: tools that were defined
        elsewhere in the request; a tool of the list with the same name replaces them. Raises `RequestError` naming a wrong
        field."""
        key = raw + msgspec.json.encode([tool.own_form or tool.definition for tool in more]) if more else raw
        place = (len(key), key[len(key) // 2 :][:_SAMPLE], key[-_SAMPLE:])
        known_key = self._keys.get(place)
        if known_key is not None and known_key == key:
            key = known_key
        else:
            self._keys.put(place, key)
        if (client_tools := self._lists.get(key)) is not None:
            return client_tools
        tools = self._read_tools(raw, self._bounds)
        if more:
            names = {tool.name for tool in tools}
            tools = (*tools, *(tool for tool in more if tool.name not in names))
        # If another thread has read the same list meanwhile, its objects are returned.
        return self._lists.put_if_absent(key, _client_tools(self._untrusted.marked(tools), size=len(key)))


def _client_tools(tools: Sequence[Tool], *, size: int) -> ClientTools:
    own_forms = {tool.name: tool.own_form for tool in tools if tool.own_form is not None}
    return ClientTools(tools=tuple(tools), facts=ToolFacts.of(tools), own_forms=own_forms, size=size)


def _size(client_tools: ClientTools) -> int:
    return client_tools.size
