"""Jobs and their slots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(255), nullable=False),
        sa.Column("bot", sa.String(255), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("enabled", sa.Integer, nullable=False),
        sa.Column("next", sa.BigInteger),
        sa.Column("current", sa.BigInteger),
        sa.Column("last", sa.BigInteger),
        sa.Column("status", sa.String(8), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
    )
    op.create_index("jobs_by_bot", "jobs", ["tenant", "bot"])
    op.create_index("jobs_by_next", "jobs", ["next"])
    op.create_table(
        "job_slots",
        sa.Column("job", sa.String(32), nullable=False),
        sa.Column("slot", sa.BigInteger, nullable=False),
        sa.Column("manual", sa.Integer, nullable=False),
        sa.Column("status", sa.String(8), nullable=False),
        sa.Column("lease", sa.BigInteger),
        sa.Column("began", sa.Double),
        sa.Column("ended", sa.Double),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("starts", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("job", "slot"),
    )
    unfinished = sa.text("ended IS NULL")
    op.create_index("job_slots_open", "job_slots", ["lease"], sqlite_where=unfinished, postgresql_where=unfinished)
    op.create_index("job_slots_by_end", "job_slots", ["ended"])


def downgrade() -> None:
    op.drop_table("job_slots")
    op.drop_table("jobs")
