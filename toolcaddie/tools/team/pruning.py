"""Removes the chats of sessions that are over, once they are as old as the runs that are removed.

A session that ends by word loses its chat at once (`end_session`). One that ends by itself leaves it behind: the person may still
look for it in the bot's memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from toolcaddie.core.bots import ChatKey
from toolcaddie.personas import StoredChats
from toolcaddie.ports import Store
from toolcaddie.tools.team.sessions import open_sessions, session_of


async def old_session_chats(
    store: Store, chats: StoredChats, *, older_than: float, clock: Callable[[], float] = time.time
) -> Sequence[ChatKey]:
    """Returns the chats of sessions that are over, with a last message more than `older_than` seconds ago."""
    is_open, cutoff = await open_sessions(store), clock() - older_than
    old: list[ChatKey] = []
    async for key in chats.all():
        session = session_of(key.chat, key.bot)
        if session and session not in is_open:
            last = await chats.turns(key, after=-1)
            old += [key] if not last or last[0].at < cutoff else []
    return old


async def prune_sessions(
    store: Store, chats: StoredChats, *, older_than: float, clock: Callable[[], float] = time.time
) -> int:
    """Removes these chats. Returns the number of those that this call has removed."""
    old = await old_session_chats(store, chats, older_than=older_than, clock=clock)
    return sum([await chats.delete(key) for key in old])
