"""Cache of clients' tool lists."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.tool import Tool
from toolcaddie.doors.gateway.essential import NO_FACTS, ToolFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTools:
    """A client's tools and the facts about them. Equal bytes give the same objects, so that values derived from a list can be
    cached by its identity."""

    tools: Sequence[Tool] = ()
    facts: ToolFacts = NO_FACTS


NO_CLIENT_TOOLS = ClientTools()


class ToolLists:
    """Reads each list once, by `read_tools` of a wire, because clients send the same tools with every request.

    It caches up to `size` lists and `weight` bytes of JSON, the last used ones (in memory they take about eight times as much).
    It is thread-safe.
    """

    def __init__(
        self,
        read_tools: Callable[[bytes, Bounds], Sequence[Tool]],
        size: int = 256,
        weight: int = 16 * 1024 * 1024,
        *,
        bounds: Bounds = DEFAULT,
    ) -> None:
        self._read_tools = read_tools
        self._size = size
        self._weight = weight
        self._bounds = bounds
        self._lists: OrderedDict[bytes, ClientTools] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, raw: bytes) -> ClientTools:
        """Returns the tools of a list. Raises `RequestError` with the wrong field."""
        with self._lock:
            if raw in self._lists:
                self._lists.move_to_end(raw)
                return self._lists[raw]
        tools = self._read_tools(raw, self._bounds)
        client_tools = ClientTools(tools=tools, facts=ToolFacts.of(tools))
        with self._lock:
            if raw in self._lists:  # another thread read it meanwhile
                return self._lists[raw]
            self._lists[raw] = client_tools
            self._weight -= len(raw)
            while len(self._lists) > 1 and (len(self._lists) > self._size or self._weight < 0):
                evicted, _ = self._lists.popitem(last=False)
                self._weight += len(evicted)
        return client_tools
