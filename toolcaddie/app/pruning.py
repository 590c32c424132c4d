"""Removes old runs, and the chats of old sessions between bots, while `toolcaddie serve` serves requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolcaddie.app.settings import StorageSettings, age_seconds
from toolcaddie.core.errors import StorageError
from toolcaddie.personas import StoredChats
from toolcaddie.storage.database import Database
from toolcaddie.tools.team.pruning import prune_sessions
from toolcaddie.util.log import Logger

log = Logger(__name__)

BY_SERVE = "toolcaddie serve"
"""Name of the pruner in the record of a pruning."""

_EVERY = 3_600.0
"""Seconds between two prunings."""
_PAUSE = 0.05
"""Seconds between two batches, so that requests have the database most of the time."""
_LATE_SHARE = 1 / 30
"""Share of the age for which runs may stay longer, until the partition that they are in can be removed whole."""


@asynccontextmanager
async def pruned(database: Database, settings: StorageSettings) -> AsyncIterator[None]:
    """Removes runs and chats of sessions older than `settings.keep` within the block: at once, and then every hour."""
    older_than = age_seconds(settings.keep)
    if older_than is None:
        yield
        return
    pruning = asyncio.create_task(_prune_hourly(database, older_than))
    try:
        yield
    finally:
        pruning.cancel()
        await asyncio.wait({pruning})


async def _prune_hourly(database: Database, older_than: float) -> None:
    """Removes what is older than `older_than` seconds, at once and every hour, until it is cancelled. A failure is logged."""
    while True:
        try:
            late = older_than * _LATE_SHARE
            removed = await database.retention.prune(older_than, by=BY_SERVE, pause=_PAUSE, late=late)
            if removed.runs:
                log.info("pruned", runs=removed.runs, rows=removed.events, documents=removed.documents)
            chats = await prune_sessions(database.store, StoredChats(database.store), older_than=older_than)
            if chats:
                log.info("sessions_pruned", chats=chats)
        except StorageError as error:
            log.warning("not_pruned", error=str(error))
        await asyncio.sleep(_EVERY)
