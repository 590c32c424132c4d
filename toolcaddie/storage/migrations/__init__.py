"""Migrates a database to the newest schema by the steps in `versions/`. The behaviour of a released step never changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

VERSION_TABLE = "toolcaddie_schema"


class NewerDatabaseError(Exception):
    """The schema was made by a newer version. The argument is its revision."""


def revisions(connection: Connection) -> tuple[str | None, Sequence[str]]:
    """Returns the revision of the schema of a database, None if it has none, and all revisions that this version knows, the
    newest first. Changes nothing."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    script = ScriptDirectory(str(Path(__file__).parent))
    return context.get_current_revision(), [step.revision for step in script.walk_revisions()]


def upgrade(connection: Connection) -> bool:
    """Migrates to the newest schema within the transaction of `connection`: all steps happen or none. Returns True if the
    database had no schema before.

    Raises `NewerDatabaseError` for an unknown schema, and SQLAlchemy's own errors.
    """
    script = ScriptDirectory(str(Path(__file__).parent))
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    current = context.get_current_revision()
    steps = list(script.walk_revisions())  # newest first
    revisions = [step.revision for step in steps]
    if current is not None and current not in revisions:
        raise NewerDatabaseError(current)
    missing = steps if current is None else steps[: revisions.index(current)]
    with Operations.context(context):
        for step in reversed(missing):
            step.module.upgrade()
            context.stamp(script, step.revision)
    return current is None
