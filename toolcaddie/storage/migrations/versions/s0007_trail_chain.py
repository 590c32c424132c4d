"""The hash chain over the rows of the trail. It begins after the rows that are there already."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("events", sa.Column("link", sa.LargeBinary))
    head = op.create_table(
        "trail_head",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("trail", sa.String(32), nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("link", sa.LargeBinary, nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("seal", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "trail_gaps",
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("link", sa.LargeBinary, nullable=False),
        sa.Column("seal", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("last", name="trail_gaps_by_last"),
    )
    # No later row may get the id of a row that was pruned.
    last = (
        op.get_bind()
        .execute(
            sa.text(
                "SELECT max(0, coalesce(a, 0), coalesce(b, 0)) FROM (SELECT max(id) AS a FROM events), "
                "(SELECT max(last_event) AS b FROM prunings)"
            )
            if op.get_bind().dialect.name == "sqlite"
            else sa.text("SELECT greatest(0, (SELECT max(id) FROM events), (SELECT max(last_event) FROM prunings))")
        )
        .scalar_one()
    )
    row = {"id": 1, "trail": secrets.token_hex(8), "first": last + 1, "position": last}
    op.bulk_insert(head, [{**row, "link": b"", "key_id": "", "seal": b""}])


def downgrade() -> None:
    op.drop_table("trail_gaps")
    op.drop_table("trail_head")
    op.drop_column("events", "link")
