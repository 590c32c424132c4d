"""Limits how often each caller calls a tool."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

from toolcaddie.util.bounded import Bounded

_MINUTE = 60.0
_MOST_CALLERS = 10_000
"""Callers whose calls are remembered; those who called longest ago are forgotten first."""


class Rate:
    """A largest number of calls in any minute, for each caller. 0: no limit."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float]) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._calls: Bounded[Hashable, deque[float]] = Bounded(_MOST_CALLERS)

    def allows(self, caller: Hashable) -> bool:
        """Returns True if the caller may call now, and counts the call."""
        if not self.per_minute:
            return True
        now = self._clock()
        calls = self._calls.get(caller)
        if calls is None:
            calls = deque()
            self._calls.put(caller, calls)
        while calls and calls[0] <= now - _MINUTE:
            calls.popleft()
        if len(calls) >= self.per_minute:
            return False
        calls.append(now)
        return True
