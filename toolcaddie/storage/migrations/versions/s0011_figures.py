"""Figures of the trail for the console, and an index of the runs that wait for a person."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_KEY = sa.String(255).with_variant(sa.Text(collation="C"), "postgresql")
_NUMBERS = (
    "number",
    "failed",
    "sent",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "money",
    "unpriced",
    "instead",
)


def upgrade() -> None:
    op.create_table(
        "figures",
        sa.Column("topic", sa.String(16), nullable=False),
        sa.Column("period", sa.String(10), nullable=False),
        sa.Column("tenant", _KEY, nullable=False),
        sa.Column("name", _KEY, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _NUMBERS),
        sa.PrimaryKeyConstraint("topic", "period", "tenant", "name"),
        sqlite_with_rowid=False,
    )
    op.create_index("figures_by_name", "figures", ["topic", "period", "name"])
    position = op.create_table(
        "figures_position", sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False)
    )
    op.bulk_insert(position, [{"position": 0}])
    waiting = sa.text("status = 'pending'")
    op.create_index("runs_waiting", "runs", ["tenant"], sqlite_where=waiting, postgresql_where=waiting)


def downgrade() -> None:
    op.drop_index("runs_waiting", "runs")
    op.drop_table("figures_position")
    op.drop_table("figures")
