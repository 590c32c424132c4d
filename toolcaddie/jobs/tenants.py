"""Counts the pieces of work of a tenant that wait, so that one tenant cannot fill the queue of all."""

from __future__ import annotations

from sqlalchemy import Connection, text

from toolcaddie.core.errors import QueueFullError
from toolcaddie.jobs.unfinished import WAITING, table_of

_RETRY_SECONDS = 5.0
"""Seconds after which a refused piece may be put again."""
_COUNT = (
    "SELECT count(*) FROM {} WHERE queue_name = :kind AND queue_partition_key = :tenant"
    f" AND status IN ({', '.join(repr(status) for status in WAITING)})"
)


def require_room(connection: Connection, schema: str, kind: str, tenant: str, *, most: int) -> None:
    """Raises `QueueFullError` if `most` pieces of the tenant wait already. What the transaction of `connection` puts is counted
    by the next one: SQLite has one writer at a time, and PostgreSQL gets a lock for the tenant."""
    named = {"kind": kind, "tenant": tenant}
    if connection.dialect.name == "postgresql":
        lock = "SELECT pg_advisory_xact_lock(hashtext(:kind), hashtext(:tenant))"
        connection.execute(text(lock), named)
    waiting = connection.execute(text(_COUNT.format(table_of(connection.dialect.name, schema))), named).scalar() or 0
    if waiting >= most:
        raise QueueFullError(
            f"{waiting} pieces of work of the tenant {tenant!r} wait already (setting jobs.tenant_waiting); "
            "put this one again when some have ended",
            retry_after=_RETRY_SECONDS,
        )
