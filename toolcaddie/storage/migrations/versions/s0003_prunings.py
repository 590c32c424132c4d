"""Records of prunings: moment, author and removed rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "prunings",
        sa.Column("id", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("cutoff", sa.Double, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("events", sa.Integer, nullable=False),
        sa.Column("first_event", sa.BigInteger, nullable=False),
        sa.Column("last_event", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("prunings")
