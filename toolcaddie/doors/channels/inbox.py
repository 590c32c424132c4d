"""What a channel is given: `Inbox`, which takes its messages and keeps its small state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from toolcaddie.core.channels import Incoming
from toolcaddie.ports import Store

PATH = "/channels/"
"""Webhooks are below this path, each under the name of its channel."""
_STATE = "channel.state"


class Inbox:
    """Implements `ports.ChannelInbox` for the channel `name`. `owner` returns the number of this process's lease if it runs the
    channels, else None."""

    def __init__(
        self,
        name: str,
        take: Callable[[str, Incoming], Awaitable[None]],
        store: Store,
        owner: Callable[[], int | None],
    ) -> None:
        self.name = name
        self.url_path = f"{PATH}{name}"
        self._take = take
        self._store = store
        self._owner = owner

    async def put(self, message: Incoming) -> None:
        await self._take(self.name, message)

    async def recall(self, key: str) -> str | None:
        value = await self._store.get(_STATE, f"{self.name}\0{key}")
        return None if value is None else value.decode()

    async def note(self, key: str, value: str, *, seconds: float | None = None) -> None:
        await self._store.put(_STATE, f"{self.name}\0{key}", value.encode(), ttl=seconds, owner=self._owner())
