"""Settles the runs that killed processes left, before a command shows runs or continues one.

A process without a server beside it would otherwise end before it can count another one as dead, because that takes the length
of a lease.
"""

from __future__ import annotations

import asyncio
import contextlib

from toolcaddie.storage.database import Database

_MOST_SECONDS = 15.0
"""Longest wait. Leases may last an hour; then a run of a killed process is shown as running until a server settles it."""


async def settle_lost_runs(database: Database) -> None:
    """Settles the open runs of processes that are dead. It waits only if another process has open runs."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_MOST_SECONDS):
            await database.leases.settle_dead()
