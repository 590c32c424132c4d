"""The steps from one shape of the database to the next. A step that was released is never changed again."""

from __future__ import annotations

from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

VERSION_TABLE = "toolcaddie_schema"


class NewerDatabaseError(Exception):
    """The database was shaped by a version that came after this one. The argument is its revision."""


def upgrade(connection: Connection) -> None:
    """Take the database to the newest shape, within the transaction of `connection`: all steps happen or none.

    Raises `NewerDatabaseError` for a shape we do not know, and SQLAlchemy's own errors.
    """
    script = ScriptDirectory(str(Path(__file__).parent))
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    current = context.get_current_revision()
    steps = list(script.walk_revisions())  # newest first
    known = [step.revision for step in steps]
    if current is not None and current not in known:
        raise NewerDatabaseError(current)
    missing = steps if current is None else steps[: known.index(current)]
    with Operations.context(context):
        for step in reversed(missing):
            step.module.upgrade()
            context.stamp(script, step.revision)
