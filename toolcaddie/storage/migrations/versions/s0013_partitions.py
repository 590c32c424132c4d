"""The trail in partitions by row id on PostgreSQL. The rows that are there become the first partition and are not copied.

Servers of older versions go on: they write to `events` as before. They wait for a moment while the table is renamed.
"""

from __future__ import annotations

import re
import time

import sqlalchemy as sa
from alembic import op
from sqlalchemy.exc import OperationalError

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

BOUND = "events_first_bound"
"""Name of the check that `partitions.prove_bound` adds to a large table beforehand, so that its rows need not be read here."""
_ATTEMPTS = 40
_WAIT = "250ms"
"""Time for which others who use the trail wait behind this migration; then they go on and it tries again."""
_POSITION = sa.text("SELECT greatest((SELECT position FROM trail_head), (SELECT max(id) FROM events), 0)")
_CHECK = sa.text(
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = :name AND conrelid = to_regclass('events') "
    "AND convalidated"
)
_KIND = sa.text("SELECT relkind FROM pg_class WHERE oid = to_regclass('events')")
_TO_PARTITIONS = (
    "ALTER TABLE events RENAME TO events_first",
    "ALTER INDEX events_pkey RENAME TO events_first_pkey",
    "ALTER INDEX events_by_run RENAME TO events_first_by_run",
    "CREATE TABLE events (LIKE events_first INCLUDING DEFAULTS) PARTITION BY RANGE (id)",
    "ALTER TABLE events ADD PRIMARY KEY (id)",
    "CREATE INDEX events_by_run ON events (run_id, id)",
    "ALTER SEQUENCE events_id_seq OWNED BY events.id",
)
_TO_ONE_TABLE = (
    "ALTER TABLE events RENAME TO events_parts",
    "ALTER INDEX events_pkey RENAME TO events_parts_pkey",
    "ALTER INDEX events_by_run RENAME TO events_parts_by_run",
    "CREATE TABLE events (LIKE events_parts INCLUDING DEFAULTS)",
    "INSERT INTO events SELECT * FROM events_parts",
    "ALTER TABLE events ADD PRIMARY KEY (id)",
    "CREATE INDEX events_by_run ON events (run_id, id)",
    "ALTER SEQUENCE events_id_seq OWNED BY events.id",
    "DROP TABLE events_parts",
)


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    _lock(connection)
    if connection.execute(_KIND).scalar() == "p":
        return
    check = connection.execute(_CHECK, {"name": BOUND}).scalar()
    until = connection.execute(_POSITION).scalar_one() + 1 if check is None else int(re.findall(r"\d+", check)[-1])
    for statement in _TO_PARTITIONS:
        op.execute(statement)
    op.execute(f"ALTER TABLE events ATTACH PARTITION events_first FOR VALUES FROM (MINVALUE) TO ({until})")
    op.execute(f"ALTER TABLE events_first DROP CONSTRAINT IF EXISTS {BOUND}")


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for statement in _TO_ONE_TABLE:
            op.execute(statement)


def _lock(connection: sa.Connection) -> None:
    """Lets nobody else use the trail until the migration ends. Raises `OperationalError`."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with connection.begin_nested():
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_WAIT}'")
                connection.exec_driver_sql("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
            return
        except OperationalError:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(0.25)
