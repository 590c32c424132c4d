"""Follows the trail, so that lists of runs show what happens.

One task reads for all who watch, and only while somebody does: a few times a second it asks for the rows after the last one that
it has seen. The ids of rows have no gaps and the order of writing, so it misses none, also none that other processes write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from toolcaddie.core.errors import StorageError
from toolcaddie.core.storage import RunSummary
from toolcaddie.doors.texts import shortened
from toolcaddie.storage.run_lists import RunLists
from toolcaddie.util.log import Logger
from toolcaddie.util.text import visible_line

log = Logger(__name__)

INTERVAL = 0.3
"""Seconds between two looks at the trail."""

_HEARTBEAT = 15.0
"""Seconds after which something is sent although nothing happens, so that proxies keep the connection."""
_LONGEST = 300.0
"""Seconds after which a stream ends. The browser asks again, and it is checked again who may see what."""
_ROWS = 5_000
"""Number of rows that are read at once."""
_MOST_MISSED = 100_000
"""Largest number of rows that somebody who comes back is told; otherwise the page is loaded again."""
_MOST_PENDING = 10_000
"""Largest number of runs that wait until a slow reader takes them; then the page is loaded again."""
_AT_ONCE = 250
"""Largest number of runs in one event."""
_MESSAGE = 160
MOST_TOOLS = 4
"""Largest number of tools of a run that a list names."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A run that has changed, and the names of the tools that it has called."""

    run: RunSummary
    tools: Sequence[str]


@dataclass(slots=True, eq=False)
class _Watcher:
    takes: Callable[[RunSummary], bool]
    pending: dict[str, _Change] = field(default_factory=dict)
    """The last state of each run that changed and was not sent yet."""
    last: int = 0
    """The place in the trail up to which `pending` has everything."""
    is_lost: bool = False
    """True: it missed too much."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, changes: Sequence[_Change], last: int) -> None:
        self.pending.update(self.wanted(changes))
        self.last = max(self.last, last)
        if len(self.pending) > _MOST_PENDING:
            self.pending.clear()
            self.is_lost = True
        if self.pending or self.is_lost:
            self.wake.set()

    def wanted(self, changes: Sequence[_Change]) -> Mapping[str, _Change]:
        """Returns the changes that it takes, by run."""
        return {change.run.run_id: change for change in changes if self.takes(change.run)}


class LiveRuns:
    """Tells those who watch which runs have changed. `is_stopping`: True while the server shuts down."""

    def __init__(
        self, lists: RunLists, *, is_stopping: Callable[[], bool] = lambda: False, interval: float = INTERVAL
    ) -> None:
        self._lists = lists
        self._is_stopping = is_stopping
        self._interval = interval
        self._watchers: set[_Watcher] = set()
        self._last = -1
        """The place of the last row that was read; negative: nobody watches."""
        self._task: asyncio.Task[None] | None = None
        self._start = asyncio.Lock()

    async def watch(
        self, *, after: int, takes: Callable[[RunSummary], bool], joins: Callable[[RunSummary], bool]
    ) -> AsyncGenerator[bytes, None]:
        """Yields the runs that change after a place in the trail, as the data of server-sent events.

        `takes`: if somebody may see and wants to see a run. `joins`: if it belongs into the list when it is not there yet.
        """
        watcher = _Watcher(takes, last=after)
        end = asyncio.get_running_loop().time() + _LONGEST
        try:
            await self._join(watcher, after)
            while not self._is_stopping() and asyncio.get_running_loop().time() < end:
                if watcher.is_lost:
                    yield _event({"reload": True}, watcher.last)
                    return
                changes, watcher.pending, last = list(watcher.pending.values()), {}, watcher.last
                watcher.wake.clear()
                for start in range(0, len(changes), _AT_ONCE):
                    batch = [_row(each, joins=joins(each.run)) for each in changes[start : start + _AT_ONCE]]
                    # A browser that comes back names the last id. Only the last batch is everything up to that place.
                    yield _event({"runs": batch}, last if start + _AT_ONCE >= len(changes) else None)
                if not changes:
                    yield b""
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(watcher.wake.wait(), _HEARTBEAT)
        finally:
            self._leave(watcher)

    async def _join(self, watcher: _Watcher, after: int) -> None:
        """Adds somebody who watches, and tells what happened before."""
        async with self._start:
            if self._task is None or self._task.done():
                self._last = await self._lists.last_event()
                self._task = asyncio.create_task(self._follow(), name="toolcaddie-console-live")
            self._watchers.add(watcher)
            joined = self._last
        if joined - after > _MOST_MISSED:
            watcher.is_lost = True
            return
        place = after
        while place < joined:
            news = await self._lists.news(place, limit=_ROWS)
            if news.last == place:
                return
            # What the task has told meanwhile is newer.
            watcher.pending = {**watcher.wanted(await self._changes(news.runs)), **watcher.pending}
            place = news.last
        watcher.last = max(watcher.last, place)

    def _leave(self, watcher: _Watcher) -> None:
        self._watchers.discard(watcher)
        if not self._watchers and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            if self._is_stopping():
                for watcher in self._watchers:
                    watcher.wake.set()
                return
            try:
                await self._look()
            except StorageError as error:  # the next look may succeed
                log.warning("live_list_failed", error=str(error))

    async def _look(self) -> None:
        is_whole = False
        while not is_whole:
            news = await self._lists.news(self._last, limit=_ROWS)
            self._last, is_whole = news.last, news.is_whole
            changes = await self._changes(news.runs)
            for watcher in self._watchers:
                watcher.tell(changes, news.last)

    async def _changes(self, runs: Sequence[RunSummary]) -> Sequence[_Change]:
        tools = await self._lists.tools([run.run_id for run in runs]) if runs else {}
        return [_Change(run, tools.get(run.run_id, ())) for run in runs]


def _row(change: _Change, *, joins: bool) -> dict[str, object]:
    """Returns what a list shows of a run. Characters that nobody sees are spelled out, as on pages."""
    run, tools = change.run, change.tools
    return {
        "run_id": run.run_id,
        "started": run.started,
        "status": run.status,
        "principal": visible_line(run.principal),
        "bot": visible_line(run.bot or ""),
        "tenant": visible_line(run.tenant),
        "message": visible_line(shortened(run.message, _MESSAGE)),
        "tools": [visible_line(name) for name in tools[:MOST_TOOLS]],
        "more_tools": max(0, len(tools) - MOST_TOOLS),
        "calls": run.calls,
        "rounds": run.rounds,
        "seconds": run.seconds,
        "joins": joins,
    }


def _event(data: object, last: int | None) -> bytes:
    """Returns the data of an event, followed by its id."""
    return msgspec.json.encode(data) + (b"" if last is None else b"\nid: %d" % last)
