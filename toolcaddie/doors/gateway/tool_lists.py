"""Tool lists of clients, read once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.tool import Tool
from toolcaddie.doors.gateway.essential import NO_TOOLS, KnownTools


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTools:
    """A client's tools, and what is known of them by their names. The same objects for the same bytes, so that whatever is
    derived from a list can be kept by its identity."""

    tools: Sequence[Tool] = ()
    known: KnownTools = NO_TOOLS


NO_CLIENT_TOOLS = ClientTools()


class ToolLists:
    """Clients send the same tools with every request: each different list is read once, by `read_tools` of a wire.

    Keeps up to `size` lists and `weight` bytes of JSON, the ones used last (read, they weigh some eight times as much).
    Safe for many threads.
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
        """Raises `RequestError` naming the field at fault."""
        with self._lock:
            if raw in self._lists:
                self._lists.move_to_end(raw)
                return self._lists[raw]
        tools = self._read_tools(raw, self._bounds)
        client_tools = ClientTools(tools=tools, known=KnownTools.of(tools))
        with self._lock:
            if raw in self._lists:  # another thread read it meanwhile
                return self._lists[raw]
            self._lists[raw] = client_tools
            self._weight -= len(raw)
            while len(self._lists) > 1 and (len(self._lists) > self._size or self._weight < 0):
                forgotten, _ = self._lists.popitem(last=False)
                self._weight += len(forgotten)
        return client_tools
