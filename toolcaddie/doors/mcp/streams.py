"""Stored events of response streams, with which a client of the protocol of 2025 resumes a stream that was interrupted."""

from __future__ import annotations

import secrets
from collections import deque
from itertools import count

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage

_LARGEST_NUMBER = 2_000
_LARGEST_BYTES = 32 * 1024 * 1024


class RecentEvents(EventStore):
    """The last events of all streams, in memory: an interruption of seconds loses nothing, and old events are dropped.

    The number in an id is preceded by a random text, so that no client guesses the id of another one's event.
    """

    def __init__(self) -> None:
        self._events: deque[tuple[EventId, StreamId, JSONRPCMessage | None, int]] = deque()
        self._numbers = count()
        self._bytes = 0

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        event_id = f"{secrets.token_hex(8)}-{next(self._numbers)}"
        size = len(message.model_dump_json()) if message is not None else 0
        self._events.append((event_id, stream_id, message, size))
        self._bytes += size
        while len(self._events) > _LARGEST_NUMBER or self._bytes > _LARGEST_BYTES:
            self._bytes -= self._events.popleft()[3]
        return event_id

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Sends the events that followed on the same stream. Returns the stream; None: the event is unknown."""
        events = list(self._events)
        start = next((place for place, event in enumerate(events) if event[0] == last_event_id), None)
        if start is None:
            return None
        stream = events[start][1]
        for event_id, stream_id, message, _ in events[start + 1 :]:
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, event_id))
        return stream
