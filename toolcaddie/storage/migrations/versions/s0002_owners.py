"""Owners of runs: the process that continues each run, and the signs that it is alive."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_OWNED = sa.text("owner IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "owners",
        sa.Column("number", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("label", sa.String(255), nullable=False),
        sa.Column("started", sa.Double, nullable=False),
        sqlite_autoincrement=True,
    )
    op.add_column("runs", sa.Column("owner", sa.BigInteger))
    op.create_index("runs_by_owner", "runs", ["owner"], sqlite_where=_OWNED, postgresql_where=_OWNED)
    # Older versions wrote no owner. Their runs get one whose beat never moves, so that the first sweep settles them.
    op.execute(
        "INSERT INTO owners (beat, seconds, label, started) "
        "SELECT 0, 0.0, 'an older version', 0.0 FROM runs WHERE status = 'running' GROUP BY status"
    )
    op.execute("UPDATE runs SET owner = (SELECT MAX(number) FROM owners) WHERE status = 'running'")


def downgrade() -> None:
    op.drop_index("runs_by_owner", "runs")
    op.drop_column("runs", "owner")
    op.drop_table("owners")
