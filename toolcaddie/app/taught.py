"""Collects the requests that a runtime learns from at start if learning is on: those of the file `learning.log`, and the recorded
runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from toolcaddie.app.auditing import audit_key
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests
from toolcaddie.evaluation.logs import entries_of
from toolcaddie.learning import LogEntry, entries_of_trail
from toolcaddie.ports import EventLog
from toolcaddie.runtime import Runtime
from toolcaddie.storage.database import Database, exists


def logged_requests(settings: Settings) -> Sequence[LabelledRequest]:
    """Returns the requests of the file `learning.log`; none if learning is off or no file is named.

    Raises `ConfigError` naming the key.
    """
    learning = settings.learning
    if not learning.enabled or learning.log is None:
        return ()
    try:
        return read_requests(Path(learning.log))
    except ConfigError as error:
        raise ConfigError(f"learning.log: {error}") from error


async def past_entries(
    runtime: Runtime, settings: Settings, requests: Sequence[LabelledRequest], trail: EventLog | None = None
) -> list[LogEntry]:
    """Returns the log entries of these requests and of the recorded runs of the trail. Raises `StorageError`."""
    entries = list(entries_of(requests, runtime.source.snapshot()))
    if trail is not None and settings.learning.from_trail:
        entries += await entries_of_trail(trail, most_runs=settings.learning.from_trail)
    return entries


def teach(runtime: Runtime, settings: Settings) -> None:
    """Teaches the runtime of a command that does not keep a database open, and waits for it.

    Raises `ConfigError`, `StorageError`.
    """
    asyncio.run(_teach(runtime, settings, logged_requests(settings)))


async def _teach(runtime: Runtime, settings: Settings, requests: Sequence[LabelledRequest]) -> None:
    if not settings.learning.from_trail or not exists(settings.database_url):
        await runtime.learn(await past_entries(runtime, settings, requests))
        return
    async with Database(settings.database_url, audit_key=audit_key(settings.audit)) as database:
        await runtime.learn(await past_entries(runtime, settings, requests, database.events))
