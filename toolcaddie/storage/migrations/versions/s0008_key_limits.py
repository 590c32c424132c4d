"""Limits of API keys, the counters of their windows, and the use of each key by day and model."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("limits", sa.Text))
    op.create_table(
        "key_windows",
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column("span", sa.String(8), nullable=False),
        sa.Column("start", sa.BigInteger, nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("money", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("key_id", "span", "start"),
    )
    op.create_table(
        "key_usage",
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in (
                *("requests", "input_tokens", "output_tokens", "cached_tokens"),
                *("money", "unpriced", "estimated"),
            )
        ),
        sa.PrimaryKeyConstraint("key_id", "day", "model"),
    )


def downgrade() -> None:
    op.drop_table("key_usage")
    op.drop_table("key_windows")
    op.drop_column("api_keys", "limits")
