"""Results of systemd's jobs. A job is a unit's start or stop that systemd has queued; its signal `JobRemoved` says how it
ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.dbus import Signal

MANAGER = "org.freedesktop.systemd1.Manager"
MATCH = f"type='signal',sender='org.freedesktop.systemd1',interface='{MANAGER}',member='JobRemoved'"


class Watch:
    """The jobs that have ended since the watch began, so that none is missed that ends before its path is known."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, str], str] = {}
        self._is_lost = False
        self._news = asyncio.Event()

    def add(self, sender: str, path: str, result: str) -> None:
        self._results[sender, path] = result
        self._news.set()

    def lose(self) -> None:
        self._is_lost = True
        self._news.set()

    async def result(self, sender: str, path: str) -> str:
        """Returns the result of a job of one systemd, such as `done`, when it has ended. Anybody may send a signal, so only those
        of this sender count. Raises `HostError` if the connection ends first."""
        while (sender, path) not in self._results:
            if self._is_lost:
                raise HostError("the connection to systemd was lost before the job had ended; read the unit's status")
            self._news.clear()
            await self._news.wait()
        return self._results[sender, path]


class Jobs:
    """The watches of all calls in progress."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        """Begins a watch. Enter it before the job is made."""
        watch = Watch()
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    def receive(self, signal: Signal) -> None:
        """Takes a signal of the bus."""
        if signal.interface != MANAGER or signal.member != "JobRemoved" or len(signal.body) != 4:
            return
        _, path, _, result = signal.body
        for watch in self._watches:
            watch.add(signal.sender, path, result)

    def lose(self) -> None:
        """Ends all watches: no more signals come."""
        for watch in self._watches:
            watch.lose()
