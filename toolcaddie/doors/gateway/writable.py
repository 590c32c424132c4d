"""Checks for the gateway's route `/readyz` that runs can be recorded."""

from __future__ import annotations

import asyncio

from toolcaddie.core.errors import StorageError
from toolcaddie.ports import EventLog, Store

_PATIENCE = 2.0
"""Seconds that a small write may take. It is short because a load balancer asks every few seconds, while a locked database
answers only after five."""

_KIND, _KEY, _TTL = "ready", "ready", 60.0


class Writable:
    """Checks by writing the waiting events of the trail and a small row. This detects a full disk, a locked or deleted database
    and a failing trail, which reading would not detect."""

    def __init__(self, event_log: EventLog, documents: Store, *, patience: float = _PATIENCE) -> None:
        self._event_log = event_log
        self._documents = documents
        self._patience = patience
        self._probe: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raises `RunError` with the reason if nothing can be written. Concurrent checks share one probe, so that a blocked
        database gets only one."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.ensure_future(self._write_probe())
        finished, _ = await asyncio.wait({self._probe}, timeout=self._patience)
        if not finished:
            raise StorageError(f"the database has not taken a small write for {self._patience:g} seconds")
        self._probe.result()

    async def _write_probe(self) -> None:
        await self._event_log.flush()
        await self._documents.put(_KIND, _KEY, b"", ttl=_TTL)
