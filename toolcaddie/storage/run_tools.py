"""Keeps for each run the names of the tools that it called, so that the runs of a tool are found without reading all rows.

The writer adds them in the transaction of the rows themselves. A name that no tool can have, which a model has invented, is left
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, text
from sqlalchemy.dialects import postgresql, sqlite

from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.compiled import CompiledStatement
from toolcaddie.storage.tables import run_tools

LONGEST_NAME = 200
"""Largest number of characters of a name."""

CALLS = frozenset({"call_decided", "call_finished", "meta_called"})
"""Kinds of records that name a tool which the run called."""

_ADD = text(
    "INSERT INTO run_tools (run_id, tool, started) SELECT run_id, :tool, started FROM runs WHERE run_id = :run_id "
    "ON CONFLICT DO NOTHING"
)
_COLUMNS = ("run_id", "tool", "started")
_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class CalledTool(NamedTuple):
    """A tool that a run called. `started`: the start of the run; None: another process began it."""

    run_id: str
    tool: str
    started: float | None


def tools_in(record: EventRecord) -> tuple[str, ...]:
    """Returns the names of the tools whose call a record is about."""
    if record.kind in CALLS:
        return tuple(_usable([record.data.get("name")]))
    if record.kind == "run_finished":
        return tuple(_usable(call.get("name") for call in record.data.get("client_calls", ())))
    return ()


def add_tools(connection: Connection, tools: Iterable[CalledTool]) -> None:
    """Adds tools of runs, each once. The rows of the runs must exist."""
    known: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for run_id, tool, started in dict.fromkeys(tools):
        (others if started is None else known).append({"run_id": run_id, "tool": tool, "started": started})
    if known:
        _insert(connection.dialect.name).execute(connection, known)
    if others:
        connection.execute(_ADD, others)


@cache
def _insert(dialect: str) -> CompiledStatement:
    """Returns the statement that inserts rows, and leaves out those that are there."""
    return CompiledStatement(_INSERT[dialect](run_tools).on_conflict_do_nothing(), _COLUMNS)


def _usable(names: Iterable[object]) -> Iterator[str]:
    for name in names:
        if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable():
            yield name
