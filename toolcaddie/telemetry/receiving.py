"""The base of event sinks that never wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcaddie.core.events import RunEvent


class ReceivingSink:
    """Passes each event to the function of its class. `receivers`: the functions; see `ports.EventSink`."""

    def __init__(self, receivers: Mapping[type, Callable[[Any], None]]) -> None:
        self._receivers = receivers
        self.takes = frozenset(receivers)

    @property
    def receivers(self) -> Mapping[type, Callable[[Any], None]]:
        """The function for each class of events."""
        return self._receivers

    async def emit(self, event: RunEvent) -> None:
        receive = self._receivers.get(type(event))
        if receive is not None:
            receive(event)
