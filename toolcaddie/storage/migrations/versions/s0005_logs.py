"""Logs, and keys in the order of their code points whatever the language of the server."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_KEY = sa.String(255).with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "log_entries",
        sa.Column("stream", _KEY, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("stream", "position"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("documents", "key", type_=sa.Text(collation="C"))


def downgrade() -> None:
    op.drop_table("log_entries")
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("documents", "key", type_=sa.String(255))
