"""Statements that select runs from the table `runs`, the newest first.

A statement reads one range of one index: that of the tool, the bot, the principal or the tenant, whichever comes first in this
order, or else that of all runs. The databases cannot know which is the shortest, so the other conditions are written such that no
index serves them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, or_, select

from toolcaddie.core.storage import RunCursor, RunQuery
from toolcaddie.storage.tables import run_tools, runs

_INDEXED = ("bot", "principal", "tenant")
"""Columns with an index, the one with the fewest runs for a value first."""


def select_runs(query: RunQuery) -> Select[Any]:
    """Returns the statement that selects the runs of a query. Runs of the same moment are ordered by id."""
    place = _place(query)
    statement = _of_tool(select(runs), query).where(*_range(query), *_others(query))
    return statement.order_by(place.started.desc(), place.run_id).limit(query.limit)


def select_edge(query: RunQuery, size: int) -> Select[Any]:
    """Returns the statement that selects the start of the last one of the `size` newest runs in the range that a query reads. It
    reads nothing but an index."""
    started = _place(query).started
    source = run_tools if query.tool is not None else runs
    statement = select(started).select_from(source).where(*_range(query)).order_by(started.desc())
    return statement.limit(1).offset(size - 1)


def _place(query: RunQuery) -> Any:
    """Returns the columns with the place of a run in the list."""
    return run_tools.c if query.tool is not None else runs.c


def _of_tool(statement: Select[Any], query: RunQuery) -> Select[Any]:
    if query.tool is None:
        return statement
    return statement.select_from(run_tools.join(runs, runs.c.run_id == run_tools.c.run_id))


def _range(query: RunQuery) -> list[ColumnElement[bool]]:
    """Returns the conditions that an index serves."""
    started, run_id = _place(query).started, _place(query).run_id
    terms = []
    if query.tool is not None:
        terms.append(run_tools.c.tool == query.tool)
    elif (name := _narrowest(query)) is not None:
        terms.append(runs.c[name] == getattr(query, name))
    if query.since is not None:
        terms.append(started >= query.since)
    if query.until is not None:
        terms.append(started < query.until)
    if query.before is not None:
        terms.append(_after(started, run_id, query.before))
    return terms


def _others(query: RunQuery) -> list[ColumnElement[bool]]:
    """Returns the conditions that are checked for each run in the range."""
    indexed = None if query.tool is not None else _narrowest(query)
    names = [name for name in (*_INDEXED, "status") if name != indexed and getattr(query, name) is not None]
    terms: list[ColumnElement[bool]] = [runs.c[name].concat("") == getattr(query, name) for name in names]
    if query.text is not None:
        terms.append(runs.c.message.icontains(query.text, autoescape=True))
    return terms


def _narrowest(query: RunQuery) -> str | None:
    return next((name for name in _INDEXED if getattr(query, name) is not None), None)


def _after(started: Any, run_id: Any, cursor: RunCursor) -> ColumnElement[bool]:
    """Returns the condition for what comes after a place in the list. Its first half is a range of an index, which the databases
    would not see in the second."""
    if cursor.run_id is None:
        return and_(started < cursor.started)
    return and_(started <= cursor.started, or_(started < cursor.started, run_id > cursor.run_id))
