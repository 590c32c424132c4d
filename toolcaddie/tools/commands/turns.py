"""Turns: how many commands run at once, shared fairly between those who wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class Turns:
    """At most `most` commands at once, and of one owner at most three quarters of them, so that others find a turn. The owners
    who wait are served in turn, whoever of them waits for how many."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._most_of_one = most - most // 4
        self._taken: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    async def take(self, owner: Hashable, seconds: float) -> bool:
        """Waits for a turn, at most so long. Returns whether there is one, which has to be given back."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        self._serve()
        try:
            await asyncio.wait({turn}, timeout=seconds)
        except asyncio.CancelledError:
            self._withdraw(owner, turn)
            raise
        if not turn.done():
            self._withdraw(owner, turn)
            return False
        return True

    def give_back(self, owner: Hashable) -> None:
        """Ends a turn."""
        self._free += 1
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]
        self._serve()

    def _withdraw(self, owner: Hashable, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self.give_back(owner)
            return
        turn.cancel()
        queue = self._waiting[owner]
        queue.remove(turn)
        if not queue:
            del self._waiting[owner]

    def _serve(self) -> None:
        """Gives free turns to the owners who wait, the one who has waited longest for a turn first."""
        for owner in list(self._waiting):
            if not self._free:
                return
            if self._taken.get(owner, 0) < self._most_of_one:
                self._give(owner)

    def _give(self, owner: Hashable) -> None:
        queue = self._waiting.pop(owner)
        self._free -= 1
        self._taken[owner] = self._taken.get(owner, 0) + 1
        queue.popleft().set_result(None)
        if queue:
            self._waiting[owner] = queue  # behind the others
