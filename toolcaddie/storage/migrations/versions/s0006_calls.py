"""Renames `turns`, the number of executed calls of a run, to `calls`."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE runs RENAME COLUMN turns TO calls")


def downgrade() -> None:
    op.execute("ALTER TABLE runs RENAME COLUMN calls TO turns")
