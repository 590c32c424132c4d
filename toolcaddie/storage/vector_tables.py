"""The tables of vectors in PostgreSQL, which need its extension `vector` (pgvector).

They are not among the tables of `tables`: they are made at the first catalog that is large enough, because most databases have
neither such a catalog nor the extension. What they hold can be computed again, so `db copy` leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from toolcaddie.core.errors import ConfigError
from toolcaddie.storage.reasons import reason_of

MOST_DIMENSIONS = 4_000
"""The largest number of dimensions that the extension can index as half floats."""
SEARCHED = 400
"""The number of near vectors that a search of the graph holds (`hnsw.ef_search`). More find more of the nearest ones and take
longer: see the table in docs/embedding.md."""
_MOST_SCANNED = 60_000
"""The largest number of vectors that one search looks at, so that a caller who sees few tools gets them."""
_SECONDS = 30.0
"""Seconds after which the server ends a query that nobody waits for any more."""
_LEAST_VERSION = (0, 8)
"""The first version that searches on until it has as many rows as were asked for."""
_MAKING = 0x746F6F6C76656374
"""Key of the advisory lock under which one process at a time makes the tables."""
_INSTALLED = text(
    "SELECT n.nspname AS place, e.extversion AS version FROM pg_extension e "
    "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
)
_ADVICE = (
    "install pgvector on the server of the database (the package postgresql-NN-pgvector, or the image pgvector/pgvector) and run "
    "CREATE EXTENSION vector in the database as a user who may; or set embedding.most_in_memory to a number above that of your "
    "tools, and every process holds their vectors in memory"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The place of the extension, quoted for statements. Its schema need not be in the search path."""

    place: str

    @property
    def vector(self) -> str:
        """The type of a vector of half floats."""
        return f"{self.place}.halfvec"

    @property
    def sending(self) -> str:
        """The function that returns a vector as bytes."""
        return f"{self.place}.halfvec_send"

    @property
    def distance(self) -> str:
        """The operator of the negative inner product."""
        return f"OPERATOR({self.place}.<#>)"

    @property
    def order(self) -> str:
        """The operator class of an index for that operator."""
        return f"{self.place}.halfvec_ip_ops"


def made_tables(connection: Connection) -> Extension:
    """Makes the extension and the tables if they are missing; the caller commits. Raises `ConfigError`."""
    connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))
    extension = _extension(connection)
    for statement in (
        "CREATE TABLE IF NOT EXISTS vector_spaces "
        "(id serial PRIMARY KEY, name text NOT NULL UNIQUE, dimensions integer NOT NULL)",
        "CREATE TABLE IF NOT EXISTS tool_vectors "
        f"(space integer NOT NULL, digest bytea NOT NULL, vector {extension.vector} NOT NULL, PRIMARY KEY (space, digest))",
        # Apart from the vectors, because changing a row of those would add it to their index a second time.
        "CREATE TABLE IF NOT EXISTS tool_vector_uses "
        "(space integer NOT NULL, digest bytea NOT NULL, day integer NOT NULL, PRIMARY KEY (space, digest))",
    ):
        connection.execute(text(statement))
    return extension


def _extension(connection: Connection) -> Extension:
    installed = connection.execute(_INSTALLED).one_or_none()
    if installed is None:
        try:
            with connection.begin_nested():
                connection.execute(text("CREATE EXTENSION vector"))
        except SQLAlchemyError as error:
            raise ConfigError(f"PostgreSQL has no extension `vector` ({reason_of(error)}); {_ADVICE}") from error
        installed = connection.execute(_INSTALLED).one()
    version = tuple(int(part) for part in installed.version.split(".")[:2])
    if version < _LEAST_VERSION:
        raise ConfigError(
            f"PostgreSQL's extension `vector` has version {installed.version}, and 0.8 is needed; install a newer pgvector and "
            "run ALTER EXTENSION vector UPDATE"
        )
    return Extension(place=connection.dialect.identifier_preparer.quote(installed.place))


def set_up(connection: Any, _record: object) -> None:
    """Configures a new connection: how a graph is searched, and when the server gives up."""
    cursor = connection.cursor()
    for name, value in (
        ("hnsw.ef_search", SEARCHED),
        ("hnsw.iterative_scan", "relaxed_order"),
        ("hnsw.max_scan_tuples", _MOST_SCANNED),
        ("statement_timeout", round(_SECONDS * 1000)),
        # A machine that vanished with a claim loses it within half a minute.
        ("tcp_keepalives_idle", 10),
        ("tcp_keepalives_interval", 5),
        ("tcp_keepalives_count", 4),
    ):
        cursor.execute(f"SET {name} = {value}")
    cursor.close()
    connection.commit()
