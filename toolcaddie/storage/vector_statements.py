"""The statements of `vector_index`. Those that are texts name what belongs to the extension by its schema (see
`vector_tables.Extension`)."""

from __future__ import annotations

from sqlalchemy import text

ADD = (
    "INSERT INTO tool_vectors (space, digest, vector) SELECT :space, d, CAST(v AS {type}) "
    "FROM unnest(CAST(:digests AS bytea[]), CAST(:vectors AS text[])) AS new (d, v) ON CONFLICT DO NOTHING"
)
BUILD = (
    "CREATE INDEX CONCURRENTLY {name} ON tool_vectors "
    "USING hnsw ((CAST(vector AS {type}({dimensions}))) {order}) WHERE space = {number}"
)
NEAREST = (
    "SELECT digest FROM tool_vectors WHERE space = {number} "
    "ORDER BY CAST(vector AS {type}({dimensions})) {distance} CAST(:query AS {type}({dimensions})) LIMIT {count}"
)
ROWS = (
    "SELECT digest, {sending}(vector) AS sent FROM tool_vectors "
    "WHERE space = :space AND digest = ANY(CAST(:digests AS bytea[]))"
)
ADD_SPACE = text("INSERT INTO vector_spaces (name, dimensions) VALUES (:name, :dimensions) ON CONFLICT DO NOTHING")
SPACE = text("SELECT id FROM vector_spaces WHERE name = :name")
COUNT = text("SELECT count(*) FROM tool_vectors WHERE space = :space")
INDEX_STATE = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
CLAIM = text("SELECT pg_try_advisory_lock(:key)")
RELEASE = text("SELECT pg_advisory_unlock(:key)")
TOUCH = text(
    "INSERT INTO tool_vector_uses (space, digest, day) "
    "SELECT :space, d, :day FROM unnest(CAST(:digests AS bytea[])) AS d "
    "ON CONFLICT (space, digest) DO UPDATE SET day = excluded.day WHERE tool_vector_uses.day < excluded.day"
)
# A vector without a row of its use was added a moment ago. `FOR UPDATE` waits for a process that begins to use it again.
REMOVE = text(
    "WITH unused AS (SELECT space, digest FROM tool_vector_uses WHERE day < :before FOR UPDATE), "
    "uses AS (DELETE FROM tool_vector_uses u USING unused n WHERE u.space = n.space AND u.digest = n.digest AND u.day < :before "
    "RETURNING u.space, u.digest), "
    "gone AS (DELETE FROM tool_vectors v USING uses u WHERE v.space = u.space AND v.digest = u.digest RETURNING 1) "
    "SELECT count(*) FROM gone"
)
MISSING = text(
    "SELECT d FROM unnest(CAST(:digests AS bytea[])) AS d WHERE NOT EXISTS "
    "(SELECT FROM tool_vectors v WHERE v.space = :space AND v.digest = d)"
)
EMPTY_SPACES = text("SELECT id FROM vector_spaces s WHERE NOT EXISTS (SELECT FROM tool_vectors v WHERE v.space = s.id)")
