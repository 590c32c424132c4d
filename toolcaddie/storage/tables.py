"""The tables of the database, for queries. `migrations/` creates them on disk; a test compares the two definitions."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

# SQLite assigns ids only in a column whose type is exactly INTEGER.
_SERIAL = BigInteger().with_variant(Integer, "sqlite")

# Keys are ordered by code points on SQLite and on PostgreSQL. SQLite does so by default and enforces no length, so its
# column stays as the first migration made it.
_KEY = String(255).with_variant(Text(collation="C"), "postgresql")

# The audit trail: one row for each recorded event of a run.
events = Table(
    "events",
    metadata,
    # Ids have the order of writing and no gaps, see `chain`. (run_id, seq) is deliberately not unique in the database: a row
    # that it always refuses would block all later rows. `journal` numbers rows so that it is.
    Column("id", _SERIAL, primary_key=True, autoincrement=True),
    Column("run_id", String(255), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("at", Double, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("data", Text, nullable=False),
    Column("link", LargeBinary),  # NULL: written by a version without a chain
    Index("events_by_run", "run_id", "id"),
)

# The end of the chain over the rows of `events`: one row, see `chain`.
trail_head = Table(
    "trail_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("trail", String(32), nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("link", LargeBinary, nullable=False),
    Column("key_id", String(16), nullable=False),
    Column("seal", LargeBinary, nullable=False),
)

# The rows of `events` that prunings removed: one row for neighbouring ids, see `chain`.
trail_gaps = Table(
    "trail_gaps",
    metadata,
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("link", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    UniqueConstraint("last", name="trail_gaps_by_last"),
)

# A summary of each run, for lists.
runs = Table(
    "runs",
    metadata,
    Column("run_id", String(255), primary_key=True),
    Column("started", Double, nullable=False),
    Column("message", Text, nullable=False),
    Column("status", String(32), nullable=False),
    Column("principal", String(255), nullable=False),
    Column("preset", String(64), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("rounds", Integer, nullable=False),
    Column("seconds", Double),
    Column("owner", BigInteger),  # number of the process that continues the run; NULL: no process does
    Column("tenant", String(255), nullable=False, server_default="default"),
    Column("bot", String(255)),
    Index("runs_by_start", "started"),
    Index("runs_by_tenant", "tenant", "started"),
    Index("runs_by_principal", "principal", "started"),
    Index(
        "runs_by_bot", "bot", "started", sqlite_where=text("bot IS NOT NULL"), postgresql_where=text("bot IS NOT NULL")
    ),
    Index("runs_by_owner", "owner", sqlite_where=text("owner IS NOT NULL"), postgresql_where=text("owner IS NOT NULL")),
    Index(
        "runs_waiting", "tenant", sqlite_where=text("status = 'pending'"), postgresql_where=text("status = 'pending'")
    ),
)

# The tools that each run called, see `run_tools`. SQLite keeps the rows in the order of the key.
run_tools = Table(
    "run_tools",
    metadata,
    Column("run_id", String(255), nullable=False),
    Column("tool", String(200), nullable=False),
    Column("started", Double, nullable=False),  # that of the run, so that the runs of a tool are found in their order
    PrimaryKeyConstraint("run_id", "tool"),
    Index("run_tools_by_tool", "tool", "started"),
    sqlite_with_rowid=False,
)

# Processes that are alive, see `leases`.
owners = Table(
    "owners",
    metadata,
    # The fencing number: a write under a number whose row is gone is refused. A number is never reused, even if the newest
    # row was removed; SQLite needs AUTOINCREMENT for that.
    Column("number", _SERIAL, primary_key=True, autoincrement=True),
    Column("beat", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),  # length of the lease, as configured in that process
    Column("label", String(255), nullable=False),
    Column("started", Double, nullable=False),
    sqlite_autoincrement=True,
)

# Small values under (kind, key), see `store`.
documents = Table(
    "documents",
    metadata,
    Column("kind", String(64), nullable=False),
    Column("key", _KEY, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("expires", Double),
    PrimaryKeyConstraint("kind", "key"),
    Index("documents_by_expiry", "expires"),
)

# Append-only streams of values, see `store`.
log_entries = Table(
    "log_entries",
    metadata,
    Column("stream", _KEY, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("value", LargeBinary, nullable=False),
    PrimaryKeyConstraint("stream", "position"),
)

# The gateway's API keys, see `keys`.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("hint", String(16), nullable=False),
    Column("principal", String(255), nullable=False),
    Column("bot", String(255)),
    Column("role", String(255)),
    Column("tenant", String(255), nullable=False),
    Column("created", Double, nullable=False),
    Column("revoked", Double),
    Column("last_used", Double),
    Column("limits", Text),  # JSON object of the limits that are the key's own; NULL: it has none
    Index("api_keys_by_name", "name", unique=True),
    Index("api_keys_by_digest", "digest", unique=True),
)

# What a key has used of its limits in one minute or day, see `meter`.
key_windows = Table(
    "key_windows",
    metadata,
    Column("key_id", String(32), nullable=False),
    Column("span", String(8), nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("requests", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("money", BigInteger, nullable=False),
    PrimaryKeyConstraint("key_id", "span", "start"),
)

# The use of each key by day (UTC) and model, see `meter`.
key_usage = Table(
    "key_usage",
    metadata,
    Column("key_id", String(32), nullable=False),
    Column("day", String(10), nullable=False),
    Column("model", String(200), nullable=False),
    Column("requests", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("money", BigInteger, nullable=False),
    Column("unpriced", BigInteger, nullable=False),
    Column("estimated", BigInteger, nullable=False),
    PrimaryKeyConstraint("key_id", "day", "model"),
)

# One row for each pruning that removed runs, see `retention`.
prunings = Table(
    "prunings",
    metadata,
    Column("id", _SERIAL, primary_key=True, autoincrement=True),
    Column("at", Double, nullable=False),
    Column("by", String(255), nullable=False),
    # Runs that ended before this moment were removed.
    Column("cutoff", Double, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("events", Integer, nullable=False),
    # The lowest and highest `events.id` removed, so that a check of the trail can tell where rows are missing.
    Column("first_event", BigInteger, nullable=False),
    Column("last_event", BigInteger, nullable=False),
)

# Jobs and their state, see `jobs`. Moments are milliseconds since the epoch, because slots are compared exactly.
jobs = Table(
    "jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(255), nullable=False),
    Column("bot", String(255), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("data", LargeBinary, nullable=False),  # what does not change
    Column("enabled", Integer, nullable=False),
    Column("next", BigInteger),
    Column("current", BigInteger),  # the slot that has begun and not ended
    Column("last", BigInteger),
    Column("status", String(8), nullable=False),
    Column("note", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Index("jobs_by_bot", "tenant", "bot"),
    Index("jobs_by_next", "next"),
)

# The slots of jobs, see `jobs`.
job_slots = Table(
    "job_slots",
    metadata,
    Column("job", String(32), nullable=False),
    Column("slot", BigInteger, nullable=False),
    Column("manual", Integer, nullable=False),
    Column("status", String(8), nullable=False),
    Column(
        "lease", BigInteger
    ),  # of the process that must put it into the queue, or runs it; NULL: any process may take it
    Column("began", Double),
    Column("ended", Double),
    Column("note", Text, nullable=False),
    Column("starts", Integer, nullable=False),
    PrimaryKeyConstraint("job", "slot"),
    Index("job_slots_open", "lease", sqlite_where=text("ended IS NULL"), postgresql_where=text("ended IS NULL")),
    Index("job_slots_by_end", "ended"),
)

# Sums over the trail by topic, period (a day, a month, or `all`), tenant and name, see `figures` and `counting`.
figures = Table(
    "figures",
    metadata,
    Column("topic", String(16), nullable=False),
    Column("period", String(10), nullable=False),
    Column("tenant", _KEY, nullable=False),
    Column("name", _KEY, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("sent", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("money", BigInteger, nullable=False),
    Column("unpriced", BigInteger, nullable=False),
    Column("instead", BigInteger, nullable=False),
    PrimaryKeyConstraint("topic", "period", "tenant", "name"),
    Index("figures_by_name", "topic", "period", "name"),
    sqlite_with_rowid=False,  # the rows of a period stand beside each other
)

# The id of the last row of `events` that `figures` contain: one row.
figures_position = Table(
    "figures_position", metadata, Column("position", BigInteger, primary_key=True, autoincrement=False)
)

# The number of the last commit of each writer, and the week of its first one, see `patience`.
commit_marks = Table(
    "commit_marks",
    metadata,
    Column("writer", String(32), primary_key=True),
    Column("mark", BigInteger, nullable=False),
    Column("week", Integer, nullable=False),
)

COPIED = tuple(table for table in metadata.sorted_tables if table is not commit_marks)
"""The tables that a copy of a database has: all but what belongs to the processes of one."""
