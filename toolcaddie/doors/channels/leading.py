"""Chooses the process that runs the channels: of all processes with the same database, one answers messages."""

from __future__ import annotations

import asyncio

from toolcaddie.ports import Store

_KIND, _KEY = "channel.leader", "leader"


class Leading:
    """The place of the leading process, in a store. `look_seconds`: time between two looks at the place while another has it."""

    def __init__(self, store: Store, *, look_seconds: float = 1.0) -> None:
        self._store = store
        self._look_seconds = look_seconds

    async def begin(self) -> int:
        """Waits until this process leads. Returns the number of its lease."""
        while True:
            own = await self._store.lease()
            stored = await self._store.get(_KIND, _KEY)
            if stored is None or int(stored) == own or not await self._store.holds(int(stored)):
                if await self._store.compare_and_set(_KIND, _KEY, b"%d" % own, expected=stored, owner=own):
                    return own
            else:
                await asyncio.sleep(self._look_seconds)

    async def holds(self, own: int) -> bool:
        """Returns True as long as this process leads."""
        return await self._store.lease() == own and await self._store.get(_KIND, _KEY) == b"%d" % own

    async def end(self, own: int) -> None:
        """Gives the place to another process."""
        if await self._store.get(_KIND, _KEY) == b"%d" % own:
            await self._store.delete(_KIND, _KEY, owner=own)
