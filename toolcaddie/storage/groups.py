"""Writes a group of rows of the trail with all that follows from them: the head of the chain, the rows of runs, and their tools.

On PostgreSQL this is one statement whatever the group has, with one parameter. Statements cost both sides more than rows: the
same group in five statements takes twice the time of the server that waits, and holds the lock of the head for longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, LargeBinary, Table, text
from sqlalchemy.dialects import postgresql

from toolcaddie.storage.chain import HEAD, Chain, Locked, head_of, head_values
from toolcaddie.storage.marks import due_mark
from toolcaddie.storage.run_changes import ENDING, RunChanges, change_runs
from toolcaddie.storage.run_tools import CalledTool, add_tools
from toolcaddie.storage.seals import Head
from toolcaddie.storage.tables import commit_marks, events, run_tools, runs, trail_head
from toolcaddie.storage.upsert import upsert

_AT_ONCE = 1_000
"""Largest number of rows of the trail in one statement, so that its text stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows of the table `events` in their order, the changes of runs that follow from them, and the tools that they name.
    `owner`: the number of this process."""

    rows: Sequence[Mapping[str, Any]]
    changes: RunChanges
    tools: Sequence[CalledTool]
    owner: int


class Opening(NamedTuple):
    """What a group needs before it is written, as far as it is known: that the lease exists, and the locked head."""

    lease_exists: bool | None = None
    head: Locked | None = None


def opening(connection: Connection, number: int | None) -> Opening:
    """Looks for the lease with that number and locks the head, if both take one statement. Each stays locked."""
    if number is None or connection.dialect.name != "postgresql":
        return Opening()
    row = connection.execute(_OPEN, {"number": number}).first()
    return Opening() if row is None else Opening(row[-1] is not None, head_of(row[:-1]))


def write_group(connection: Connection, group: Group, chain: Chain, head: Head) -> None:
    """Writes a group behind the locked head."""
    if connection.dialect.name == "postgresql":
        tools = _write_at_once(connection, group, chain, head)
    else:
        chain.append(connection, group.rows, head)
        if group.changes.new_runs:
            upsert(connection, runs, group.changes.new_runs)
        change_runs(connection, group.changes.ends, group.owner)
        tools = group.tools
    change_runs(connection, group.changes.others, group.owner)
    add_tools(connection, tools)


def _write_at_once(connection: Connection, group: Group, chain: Chain, head: Head) -> Sequence[CalledTool]:
    """Writes nearly all of a group in one statement. Returns the tools that are left."""
    for start in range(0, len(group.rows), _AT_ONCE):
        rows, head = chain.linked(group.rows[start : start + _AT_ONCE], head)
        given: dict[str, Any] = {
            "owner": group.owner,
            "events": list(map(_hex, rows)),
            "trail_head": [_hex(head_values(head, chain.sealer))],
        }
        if start + _AT_ONCE >= len(group.rows):
            mark = due_mark(connection)
            given["commit_marks"] = [] if mark is None else [mark]
            known = dict.fromkeys(tool for tool in group.tools if tool.started is not None)
            given["runs"] = group.changes.new_runs
            given["ends"] = [
                {"run_id": end.run_id, "by": group.owner, **(end.changes or {})} for end in group.changes.ends
            ]
            given["run_tools"] = [tool._asdict() for tool in known]
        connection.execute(_WRITE, {"given": _encode(given).decode()})
    return [tool for tool in group.tools if tool.started is None]


def _hex(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a row whose bytes are texts, as JSON needs them."""
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}


def _given(table: Table, columns: Sequence[str], *, field: str = "", also: str = "") -> str:
    """Returns the SQL of the given rows of a table as `each`. `also`: further columns."""
    types = [f"{name} {_type(table, name)}" for name in columns]
    return f"given, json_to_recordset(it -> '{field or table.name}') AS each({', '.join(types)}{also})"


def _type(table: Table, name: str) -> str:
    kind = table.c[name].type
    return "TEXT" if isinstance(kind, LargeBinary) else kind.compile(postgresql.dialect())  # type: ignore[no-untyped-call]


def _value(table: Table, name: str) -> str:
    return f"decode(each.{name}, 'hex')" if isinstance(table.c[name].type, LargeBinary) else f"each.{name}"


def _insert(table: Table) -> str:
    names = [column.name for column in table.columns]
    values = ", ".join(_value(table, name) for name in names)
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM {_given(table, names)}"


def _sets(table: Table, names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {_value(table, name)}" for name in names)


# The lease is locked before the head, as everywhere, so that two processes do not wait for each other.
_OPEN = text(
    f"""
    WITH own AS MATERIALIZED (SELECT number FROM owners WHERE number = :number FOR KEY SHARE)
    SELECT {HEAD}, own.number FROM trail_head LEFT JOIN own ON TRUE WHERE id = 1 FOR UPDATE OF trail_head
    """
)
_HEAD = ("position", "link", "key_id", "seal")
_OVERWRITTEN = ", ".join(
    f"{column.name} = excluded.{column.name}" for column in runs.columns if column.name != "run_id"
)
# A process must not end a run that another one continues or has ended meanwhile.
_IS_OURS = "(runs.owner = each.by OR runs.owner IS NULL AND runs.status = 'pending')"
# The condition on the owner always holds. It makes PostgreSQL expect one row, not a hundred, for which it would read all runs.
# All parts see the tables as they were before, so no row may be the matter of two of them.
_WRITE = text(
    f"""
    WITH given AS MATERIALIZED (SELECT CAST(:given AS json) AS it),
    new_events AS ({_insert(events)}),
    new_runs AS ({_insert(runs)} ON CONFLICT (run_id) DO UPDATE SET {_OVERWRITTEN}),
    new_tools AS ({_insert(run_tools)} ON CONFLICT DO NOTHING),
    mark AS ({_insert(commit_marks)} ON CONFLICT (writer) DO UPDATE SET mark = excluded.mark, week = excluded.week),
    ends AS (
        UPDATE runs SET {_sets(runs, ENDING)}, owner = NULL
        FROM {_given(runs, ("run_id", *ENDING), field="ends", also=", by BIGINT")}
        WHERE runs.run_id = each.run_id AND {_IS_OURS} AND each.by = CAST(it ->> 'owner' AS BIGINT)
    )
    UPDATE trail_head SET {_sets(trail_head, _HEAD)} FROM {_given(trail_head, _HEAD)} WHERE trail_head.id = 1
    """
)
_encode = msgspec.json.Encoder().encode
