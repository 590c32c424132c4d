"""Reads lists of runs in pages whose time has a bound, whatever the filter and however many runs there are.

A page is made of the runs in one window: the newest `WINDOW` runs after its cursor, of the tool, bot, principal or tenant if the
query names one. The other restrictions look at each run of the window. If it ends before the page is full, the cursor of the page
continues after it, and the reader decides if to search on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, func, select

from toolcaddie.core.storage import EventRecord, RunCursor, RunQuery, RunSummary
from toolcaddie.storage.journal import record_of
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.run_queries import select_edge, select_runs
from toolcaddie.storage.tables import events, run_tools, runs
from toolcaddie.util.replacing import replace

WINDOW = 20_000
"""Number of runs that one page searches."""
_CHANGES = ("run_started", "run_resumed", "run_paused", "run_finished", "run_failed")
"""Kinds of events that change the row of a run."""
_NEXT = select(events.c.id).where(events.c.id > bindparam("after")).order_by(events.c.id).limit(bindparam("limit"))
_END = select(func.count().label("number"), func.max(_NEXT.subquery().c.id).label("last"))
_CHANGED = (
    select(runs)
    .where(
        runs.c.run_id.in_(
            select(events.c.run_id).where(
                events.c.id > bindparam("after"), events.c.id <= bindparam("last"), events.c.kind.in_(_CHANGES)
            )
        )
    )
    .order_by(runs.c.started)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of the list of runs."""

    runs: Sequence[RunSummary] = ()
    cursor: RunCursor | None = None
    """The value for `RunQuery.before` of the next page; None: this is the last page."""
    is_cut: bool = False
    """True: the search ended at the end of its window, and there may be further runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The runs whose row changed after a place in the trail."""

    last: int
    """The place of the last row that was read, `events.id`."""
    runs: Sequence[RunSummary] = ()
    is_whole: bool = True
    """False: there are more rows after `last`."""


class RunLists:
    """Lists of runs. `flush` writes what is queued, so that a page shows everything that has happened."""

    def __init__(self, reader: Reader, *, flush: Callable[[], Awaitable[None]], window: int = WINDOW) -> None:
        self._reader = reader
        self._flush = flush
        self._window = window

    async def page(self, query: RunQuery) -> RunPage:
        """Returns a page of at most `query.limit` runs."""
        await self._flush()
        edges = await self._reader.all(select_edge(query, self._window))
        within = replace(query, limit=query.limit + 1, **({"since": edges[0].started} if edges else {}))
        rows = [RunSummary(**row._mapping) for row in await self._reader.all(select_runs(within))]
        if len(rows) > query.limit:
            return RunPage(runs=rows[: query.limit], cursor=rows[query.limit - 1].cursor)
        return RunPage(runs=rows, cursor=RunCursor(started=edges[0].started) if edges else None, is_cut=bool(edges))

    async def tools(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Returns the names of the tools that runs called, by run."""
        statement = select(run_tools.c.run_id, run_tools.c.tool).where(run_tools.c.run_id.in_(run_ids))
        names: dict[str, list[str]] = defaultdict(list)
        for row in await self._reader.all(statement.order_by(run_tools.c.run_id, run_tools.c.tool)):
            names[row.run_id].append(row.tool)
        return names

    async def run(self, run_id: str, *, tenant: str | None) -> RunSummary | None:
        """Returns a run; None: there is none of this id, or it is another tenant's. `tenant` None: all tenants."""
        await self._flush()
        statement = select(runs).where(runs.c.run_id == run_id)
        if tenant is not None:
            statement = statement.where(runs.c.tenant == tenant)
        rows = await self._reader.all(statement)
        return RunSummary(**rows[0]._mapping) if rows else None

    async def events(self, run_id: str, *, after: int = 0, limit: int) -> Sequence[EventRecord]:
        """Returns events of a run, the oldest first. `after`: the number of the event before them in the run."""
        statement = (
            select(events).where(events.c.run_id == run_id, events.c.seq > after).order_by(events.c.id).limit(limit)
        )
        return [record_of(row) for row in await self._reader.all(statement)]

    async def last_event(self) -> int:
        """Returns the place of the last row of the trail."""
        (row,) = await self._reader.all(select(func.coalesce(func.max(events.c.id), 0).label("last")))
        return int(row.last)

    async def news(self, after: int, *, limit: int) -> News:
        """Returns the runs whose row changed after a place in the trail, among the next `limit` rows, in the order of their
        starts. Ids have no gaps but those of prunings, and the order of writing, so nothing appears later before `last`."""
        (end,) = await self._reader.all(_END, after=after, limit=limit)
        if end.number == 0:
            return News(last=after)
        # A run that was pruned meanwhile has no row.
        changed = await self._reader.all(_CHANGED, after=after, last=end.last)
        return News(last=end.last, runs=[RunSummary(**row._mapping) for row in changed], is_whole=end.number < limit)
