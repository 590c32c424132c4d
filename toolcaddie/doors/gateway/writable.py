"""Whether runs could be recorded now: what `/readyz` asks."""

from __future__ import annotations

import asyncio

from toolcaddie.core.errors import StorageError
from toolcaddie.ports import EventLog, Store

_PATIENCE = 2.0
"""Seconds a small write may take. A balancer asks every few seconds, and a locked database answers only after five."""

_KIND, _KEY, _TTL = "ready", "ready", 60.0


class Writable:
    """Writes what waits of the trail, and a small row. A full disk, a locked or deleted database and a trail that fails all
    show there; reading would work in each case."""

    def __init__(self, event_log: EventLog, documents: Store, *, patience: float = _PATIENCE) -> None:
        self._event_log = event_log
        self._documents = documents
        self._patience = patience
        self._probe: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raises `RunError`, saying why nothing can be written. Many who ask at once share one probe, and one that is still
        waiting for the database is not joined by a second."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.ensure_future(self._written())
        done, _ = await asyncio.wait({self._probe}, timeout=self._patience)
        if not done:
            raise StorageError(f"the database has not taken a small write for {self._patience:g} seconds")
        self._probe.result()

    async def _written(self) -> None:
        await self._event_log.flush()
        await self._documents.put(_KIND, _KEY, b"", ttl=_TTL)
