"""Counts the conversations of each chat: `/new` begins another one, whose messages the bot reads without those before."""

from __future__ import annotations

from toolcaddie.ports import Store

_KIND = "channel.conversation"


class Histories:
    """The numbers of the present conversations, in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def number(self, channel: str, chat: str) -> int:
        """Returns the number of the present conversation of a chat; the first one is 0."""
        return int(await self._store.get(_KIND, f"{channel}\0{chat}") or b"0")

    async def begin(self, channel: str, chat: str) -> None:
        """Begins a new conversation."""
        number = await self.number(channel, chat)
        await self._store.put(_KIND, f"{channel}\0{chat}", b"%d" % (number + 1))
