"""Events, runs, documents and API keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(255), nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("events_by_run", "events", ["run_id", "id"])
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(255), primary_key=True),
        sa.Column("started", sa.Double, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("principal", sa.String(255), nullable=False),
        sa.Column("preset", sa.String(64), nullable=False),
        sa.Column("turns", sa.Integer, nullable=False),
        sa.Column("rounds", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Double),
    )
    op.create_index("runs_by_start", "runs", ["started"])
    op.create_table(
        "documents",
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.Column("expires", sa.Double),
        sa.PrimaryKeyConstraint("kind", "key"),
    )
    op.create_index("documents_by_expiry", "documents", ["expires"])
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("hint", sa.String(16), nullable=False),
        sa.Column("principal", sa.String(255), nullable=False),
        sa.Column("bot", sa.String(255)),
        sa.Column("role", sa.String(255)),
        sa.Column("tenant", sa.String(255), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("revoked", sa.Double),
        sa.Column("last_used", sa.Double),
    )
    op.create_index("api_keys_by_name", "api_keys", ["name"], unique=True)
    op.create_index("api_keys_by_digest", "api_keys", ["digest"], unique=True)


def downgrade() -> None:
    for table in ("api_keys", "documents", "runs", "events"):
        op.drop_table(table)
