"""Looks whether the event loop is idle, although something is waiting for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_TICK_SECONDS = 0.001
"""Seconds between two looks."""
_LATE_SECONDS = 0.004
"""Seconds after which a look counts as late: the loop, or the machine, was busy."""
_IDLE = 0.5
"""Share of the time between two looks below which the loop was idle."""


class IdleLoop:
    """Calls `report` a moment after `look` was called, with True if the loop was idle in between."""

    def __init__(self, report: Callable[[bool], None]) -> None:
        self._report = report
        self._tick: asyncio.TimerHandle | None = None
        self._looked = (0.0, 0.0)
        """The time of the last look, and the processor time that the loop had used until then."""

    def look(self) -> None:
        """Begins a look, unless one has begun."""
        if self._tick is None:
            self._looked = (time.monotonic(), time.thread_time())
            self._tick = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._end)

    def _end(self) -> None:
        self._tick = None
        begun, used = self._looked
        seconds = time.monotonic() - begun
        self._report(seconds < _LATE_SECONDS and time.thread_time() - used < _IDLE * seconds)
