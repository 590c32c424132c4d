"""Prepares catalogs for selections in the background, one at a time, while requests go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ConfigError, ProviderError, StorageError
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

_MOST_READY = 256
"""The largest number of catalog versions that are known to be ready. An evicted version is prepared again, in milliseconds."""
_MOST_WAITING = 8
"""The largest number of catalogs that are embedded or wait for it, so that a client with a thousand new tools in each request
does not keep the process busy."""


class Preparation:
    """Prepares catalogs. `work` prepares one, however long that takes, and raises the errors of the embedder; `name` is that of
    the embedder. `patience`: seconds for which a request waits for a new catalog."""

    def __init__(self, name: str, work: Callable[[Catalog], Awaitable[None]], *, patience: float) -> None:
        self._name = name
        self._work = work
        self._patience = patience
        self._ready: Bounded[str, bool] = Bounded(_MOST_READY)
        self._coming: dict[str, asyncio.Task[None]] = {}
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def is_ready(self, catalog: Catalog) -> bool:
        return catalog.version in self._ready

    def forget(self, catalog: Catalog) -> None:
        """Lets the catalog be prepared again."""
        self._ready.pop(catalog.version)

    async def ready(self, catalog: Catalog, *, wait: bool = False) -> None:
        """Prepares a catalog in the background, unless it is ready or being prepared.

        The first caller waits for it, at most `patience` seconds, so that a changed tool counts at once; later callers do not
        wait. A failure of the embedder is logged. With `wait`, every caller waits until the catalog is ready, and a failure
        raises `ProviderError`, `ConfigError` or `StorageError`.
        """
        if self._ready.get(catalog.version):
            return
        if wait:
            await self._prepare(catalog)
            return
        if catalog.version in self._coming or len(self._coming) >= _MOST_WAITING:
            return
        task = asyncio.create_task(self._prepared(catalog))
        self._coming[catalog.version] = task
        task.add_done_callback(lambda _: self._coming.pop(catalog.version, None))
        await asyncio.wait({task}, timeout=self._patience)

    async def close(self) -> None:
        """Cancels the preparation of catalogs."""
        coming = list(self._coming.values())
        for task in coming:
            task.cancel()
        if coming:
            await asyncio.wait(coming)

    async def _prepared(self, catalog: Catalog) -> None:
        """Prepares a catalog in a background task. Errors are logged and not raised."""
        try:
            await self._prepare(catalog)
        except (ProviderError, ConfigError, StorageError):
            pass  # logged at its source, once for all catalogs
        except Exception:  # nobody awaits this task, and an embedder from another package may raise anything
            log.exception("catalog_not_embedded", embedder=self._name, tools=len(catalog))

    async def _prepare(self, catalog: Catalog) -> None:
        started = time.monotonic()
        async with self._one_at_a_time():
            await self._work(catalog)
        self._ready.put(catalog.version, True)
        if (seconds := time.monotonic() - started) > self._patience:
            log.info("catalog_embedded", embedder=self._name, tools=len(catalog), seconds=round(seconds, 1))

    def _one_at_a_time(self) -> asyncio.Lock:
        """Returns the lock of the running event loop, under which one catalog at a time is prepared.

        Catalogs share most of their tools, so the second one finds the vectors that the first one made. A lock belongs to one
        event loop, and a process may run several loops, one after the other.
        """
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = (loop, asyncio.Lock())
        return self._turn[1]
