"""A background response that this process makes, and the events of its stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from toolcaddie.doors.gateway.stored import Owner, StoredResponse, StoredResponses

_SHARE_SECONDS = 0.2
"""Shortest time between two writes of the events of a stream for clients of other processes."""


@dataclass(eq=False, slots=True, kw_only=True)
class Job:
    """A background response of this process. `stored`: its document in the database. `streams`: True if its answer is a
    stream."""

    stored: StoredResponse
    owner: Owner
    streams: bool
    deferred: bool = False
    """True: another process continues it if this one ends."""
    events: list[bytes] = field(default_factory=list)
    """The events of the stream until now. The place of an event is its `sequence_number`."""
    ended: bool = False
    handed_over: bool = False
    """True: this process stops, and another one makes the response anew or continues it."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced by a new one, with every change."""
    task: asyncio.Task[Any] | None = None

    @property
    def id(self) -> str:
        return str(self.stored.response["id"])

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Takes a message of the answer in place of a client."""
        if self.streams and message["type"] == "http.response.body":
            self.add(message["body"])

    def add(self, data: bytes) -> None:
        self.events += [event + b"\n\n" for event in data.split(b"\n\n") if event]
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def follow(self, place: int = 0) -> AsyncIterator[bytes]:
        """Yields the events from a place on, as they come."""
        while True:
            changed, pieces = self.changed, self.events[place:]
            if pieces:
                place += len(pieces)
                yield b"".join(pieces)
            elif self.ended:
                return
            else:
                await changed.wait()

    async def share(self, stored: StoredResponses) -> None:
        """Stores the events as they come, for clients of other processes."""
        place = 0
        while not self.ended:
            changed, events = self.changed, self.events[place:]
            if events:
                await stored.put_live(self.id, self.owner, place, b"".join(events), lease=self.stored.lease)
                place += len(events)
                await asyncio.sleep(_SHARE_SECONDS)
            else:
                await changed.wait()
