"""Marks that tell whether a commit succeeded whose connection broke."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "commit_marks",
        sa.Column("writer", sa.String(32), primary_key=True),
        sa.Column("mark", sa.BigInteger, nullable=False),
        sa.Column("week", sa.Integer, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("commit_marks")
