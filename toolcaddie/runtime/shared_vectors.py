"""The vectors of large catalogs, which are in a database for all processes. Before a selection, those of the tools that are near
to the request are fetched; the selection itself does no I/O."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.core.selection import QueryWords
from toolcaddie.embedders.preparation import Preparation
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.ports import Ranker, RankerFactory, VectorIndex
from toolcaddie.runtime.shared_catalogs import SharedCatalog
from toolcaddie.runtime.shared_fetching import Fetching, OfFetched
from toolcaddie.runtime.shared_filling import Filling
from toolcaddie.selection.index.masks import visible_in
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

_MOST_CATALOGS = 8
_PAUSE = 5.0
"""Seconds for which the database is not asked again after a failure, so that it delays only one request."""
_DAY = 86_400
_MEANWHILE = "words and the table of word vectors find the tools"


class SharedVectors:
    """The vectors of catalogs with more than `most` tools, in `index`.

    If that cannot search vectors at all, `covers` returns False, and `problem` says why. `patience`: seconds for which a request
    waits for the database. `clock` returns seconds since the epoch, `steady` seconds that never go back.
    """

    def __init__(
        self,
        prepared: Prepared,
        index: VectorIndex,
        *,
        most: int,
        patience: float,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._prepared = prepared
        self._index = index
        self._most = most
        self._patience = patience
        self._clock = clock
        self._steady = steady
        self._filling = Filling(prepared, index)
        self._fetching = Fetching(prepared, index)
        self._preparation = Preparation(prepared.name, self._prepare, patience=patience)
        self._catalogs: Bounded[str, SharedCatalog] = Bounded(_MOST_CATALOGS)
        self.is_refused = False
        """True: the database cannot search vectors, so those of all catalogs are in memory."""
        self._problem = ""
        self._down_until = self._open_again_at = float("-inf")

    @property
    def problem(self) -> str:
        """A sentence about a database that does not search vectors at the moment; empty: it does."""
        return self._problem

    def failure(self, catalog: Catalog) -> str:
        """Returns the same without the reason; empty also if the vectors of this catalog are in memory."""
        fails = self._problem and not self.is_refused and len(catalog) > self._most
        return f"the database of vectors failed; {_MEANWHILE}" if fails else ""

    async def covers(self, catalog: Catalog, *, wait: bool = False) -> bool:
        """Returns True if the vectors of this catalog belong in the database, which is opened for the first one: within
        `patience` seconds, unless `wait` is True."""
        if len(catalog) <= self._most or self.is_refused:
            return False
        if self._steady() < self._open_again_at and not wait:
            return True
        try:
            async with asyncio.timeout(None if wait else self._patience):
                await self._index.open()
        except ConfigError as error:
            self._refused(error)
        except StorageError as error:
            self._failed(error)
        except TimeoutError:  # it is still being opened, and `ready` waits for it in the background
            self._open_again_at = self._steady() + _PAUSE
        return not self.is_refused

    def ranker(self, fallback: RankerFactory) -> RankerFactory:
        """Returns the factory of the ranker `embedding`. It compares what was fetched for a request; for catalogs with few tools,
        and while nothing was fetched, the fallback ranks."""

        def make(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
            former = previous.fallback if isinstance(previous, OfFetched) else previous
            instead = fallback(catalog, former)
            return instead if len(catalog) <= self._most else OfFetched(self._fetching.ranker, catalog, instead)

        return make

    async def ready(self, catalog: Catalog, *, wait: bool = False) -> None:
        """Prepares a catalog in the background (see `Preparation.ready`). With `wait`, it raises `ProviderError`, `ConfigError`
        or `StorageError`."""
        shared = self._catalogs.get(catalog.version)
        if shared is None or shared.day != self._today():
            self._preparation.forget(catalog)  # it was evicted, or its use is to be noted for another day
        if wait or self._steady() >= self._down_until:
            await self._preparation.ready(catalog, wait=wait)

    async def fetch(self, view: View, words: QueryWords) -> None:
        """Fetches the vectors that a selection from this view needs. If the database fails or is too slow, this is logged once,
        and the fallback ranks."""
        shared = self._catalogs.get(view.catalog.version)
        if shared is None or self._steady() < self._down_until:
            return
        try:
            async with asyncio.timeout(self._patience):
                await self._fetching.fetch(shared, words, visible_in(view))
        except KeyError:  # this process had not used them for weeks, so that another one removed them
            self._forget()
        except (StorageError, TimeoutError) as error:
            self._failed(error)
        else:
            self._worked()

    async def close(self) -> None:
        await self._preparation.close()
        await self._index.close()

    async def _prepare(self, catalog: Catalog) -> None:
        latest, today = self._catalogs.latest(), self._today()
        before = latest[0] if latest and latest[0].day == today else None
        try:
            await self._index.open()
            shared = await self._filling.filled(catalog, before, day=today)
            self._catalogs.put(catalog.version, shared)  # from here on it is searched, if slowly
            if before is None or before.catalog is catalog or len(shared.digests.fresh):
                await self._filling.finish(shared)
        except KeyError as error:
            self._forget()
            raise StorageError("vectors of the catalog are gone from the database; they are made again") from error
        except StorageError as error:
            self._failed(error)
            raise
        except ConfigError as error:
            if not self._prepared.is_down:  # otherwise the embedder returned something that is not vectors
                self._refused(error)
            raise
        self._worked()

    def _forget(self) -> None:
        """Lets all catalogs be prepared again, because vectors are gone."""
        for shared in self._catalogs.latest():
            self._catalogs.pop(shared.catalog.version)

    def _refused(self, error: ConfigError) -> None:
        self.is_refused = True
        self._problem = f"{error}. Until then this process holds the vectors of all tools"
        log.warning("vectors_not_shared", most_in_memory=self._most, error=str(error))

    def _failed(self, error: Exception) -> None:
        self._down_until = self._open_again_at = self._steady() + _PAUSE
        reason = str(error) or f"no answer within {self._patience:g} s"
        if not self._problem:
            log.warning("vectors_not_fetched", error=reason, until_it_works=_MEANWHILE)
        self._problem = f"the database of vectors failed ({reason}); {_MEANWHILE}"

    def _worked(self) -> None:
        if self._problem:
            self._problem = ""
            log.info("vectors_fetched_again")

    def _today(self) -> int:
        return int(self._clock()) // _DAY
