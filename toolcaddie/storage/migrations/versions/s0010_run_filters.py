"""The bot of each run and the tools that it called, so that lists of runs can be filtered by them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_KINDS = "('run_started', 'call_decided', 'call_finished', 'meta_called', 'run_finished')"
_AT_ONCE = 1_000
_LONGEST = {"bot": 255, "tool": 200}
_ADD = sa.text(
    "INSERT INTO run_tools (run_id, tool, started) SELECT run_id, :tool, started FROM runs WHERE run_id = :run_id "
    "ON CONFLICT DO NOTHING"
)
_NAME = sa.text("UPDATE runs SET bot = :bot WHERE run_id = :run_id")


def upgrade() -> None:
    op.add_column("runs", sa.Column("bot", sa.String(255)))
    op.create_table(
        "run_tools",
        sa.Column("run_id", sa.String(255), nullable=False),
        sa.Column("tool", sa.String(200), nullable=False),
        sa.Column("started", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "tool"),
        sqlite_with_rowid=False,
    )
    _fill(op.get_bind())
    op.create_index("run_tools_by_tool", "run_tools", ["tool", "started"])
    op.create_index("runs_by_principal", "runs", ["principal", "started"])
    named = sa.text("bot IS NOT NULL")
    op.create_index("runs_by_bot", "runs", ["bot", "started"], sqlite_where=named, postgresql_where=named)


def downgrade() -> None:
    op.drop_index("runs_by_bot", "runs")
    op.drop_index("runs_by_principal", "runs")
    op.drop_table("run_tools")
    op.drop_column("runs", "bot")


def _fill(connection: sa.Connection) -> None:
    """Reads the bots and the tools of the runs that are recorded, in steps."""
    after = 0
    statement = sa.text(
        f"SELECT id, run_id, kind, data FROM events WHERE id > :after AND kind IN {_KINDS} ORDER BY id LIMIT :most"
    )
    while rows := connection.execute(statement, {"after": after, "most": _AT_ONCE}).all():
        after = rows[-1].id
        tools, bots = [], []
        for row in rows:
            data = _object(row.data)
            if row.kind == "run_started":
                bots += [{"run_id": row.run_id, "bot": bot} for bot in _texts(_object(data.get("principal")), "bot")]
            else:
                calls = data.get("client_calls", []) if row.kind == "run_finished" else [data]
                names = [name for call in calls for name in _texts(_object(call), "name", "tool")]
                tools += [{"run_id": row.run_id, "tool": name} for name in names]
        for added, values in ((_ADD, tools), (_NAME, bots)):
            if values:
                connection.execute(added, values)


def _object(value: Any) -> dict[str, Any]:
    """Returns a JSON object; empty: it is something else."""
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _texts(data: dict[str, Any], key: str, column: str = "bot") -> Iterator[str]:
    """Yields the text under a key, if the column can hold it."""
    text = data.get(key)
    if isinstance(text, str) and 0 < len(text) <= _LONGEST[column] and text.isprintable():
        yield text
