"""The processes on one database: their leases, and which version of the shared settings each of them has."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.app.following import server_states, shared_settings
from toolcaddie.doors.console.health.report import ProcessLease, SharedVersion
from toolcaddie.ports import Store
from toolcaddie.storage.database import Database


async def process_leases(database: Database) -> Sequence[ProcessLease]:
    """Returns the processes with a lease, the oldest first. Raises `StorageError`."""
    states = {state.process: state for state in await server_states(database)}
    ages = database.leases.ages()
    return [
        ProcessLease(
            number=owner.number,
            process=owner.label,
            started=owner.started,
            seconds=owner.seconds,
            age=None if (age := ages.get(owner.number)) is None else round(age, 3),
            settings=states.get(owner.label),
        )
        for owner in await database.leases.owners()
    ]


async def shared_version(documents: Store) -> SharedVersion | None:
    """Returns the version of the shared settings; None: none are shared. Raises `StorageError` and `ConfigError`."""
    shared = await shared_settings(documents)
    return None if shared is None else SharedVersion(version=shared.version, by=shared.by, at=shared.at)
