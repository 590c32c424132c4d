"""The tenant of each run, so that a list can show one tenant only the runs of that tenant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TENANT = {
    "sqlite": "json_extract(data, '$.principal.tenant')",
    "postgresql": "data::json -> 'principal' ->> 'tenant'",
}


def upgrade() -> None:
    op.add_column("runs", sa.Column("tenant", sa.String(255), nullable=False, server_default="default"))
    op.create_index("runs_by_tenant", "runs", ["tenant", "started"])
    tenant = _TENANT[op.get_bind().dialect.name]
    op.execute(
        f"UPDATE runs SET tenant = COALESCE((SELECT {tenant} FROM events WHERE events.run_id = runs.run_id "
        "AND kind = 'run_started' ORDER BY id LIMIT 1), 'default')"
    )


def downgrade() -> None:
    op.drop_index("runs_by_tenant", "runs")
    op.drop_column("runs", "tenant")
