"""Checks that runs can be recorded, for the gateway's route `/readyz`, which load balancers ask."""

from __future__ import annotations

import asyncio

from toolcaddie.core.errors import StorageError
from toolcaddie.ports import EventLog, Store

_PATIENCE = 2.0
"""Seconds that a small write may take. The time is short because a load balancer asks every few seconds, while a locked database
reports its error only after five seconds."""

_KIND, _KEY, _TTL = "ready", "ready", 60.0
"""Kind, key and lifetime in seconds of the document that is written."""


class Writable:
    """Checks by writing: the events of the trail (the record of all runs) that are not yet on disk, and a small document. Unlike
    reading, this detects a full disk, a locked or deleted database, and a trail that cannot be written."""

    def __init__(self, event_log: EventLog, documents: Store, *, patience: float = _PATIENCE) -> None:
        self._event_log = event_log
        self._documents = documents
        self._patience = patience
        self._probe: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raises `StorageError` or `AuditError` with the reason if nothing can be written. Concurrent checks share one write, so
        that they do not queue up at a blocked database."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.ensure_future(self._write_probe())
        finished, _ = await asyncio.wait({self._probe}, timeout=self._patience)
        if not finished:
            raise StorageError(f"the database has not taken a small write for {self._patience:g} seconds")
        self._probe.result()

    async def _write_probe(self) -> None:
        await self._event_log.flush()
        await self._documents.put(_KIND, _KEY, b"", ttl=_TTL)
