"""The vectors of whole catalogs, made in other threads while requests go on. Until the vectors of a catalog are ready, its tools
are found by their words alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ConfigError, ProviderError
from toolcaddie.core.selection import QueryWords
from toolcaddie.core.tool import CLIENT_SOURCE, Tool
from toolcaddie.embedders.prepared import PATIENCE, Prepared
from toolcaddie.ports import Ranker, RankerFactory, Ranking, Visible
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

ToolTexts = Callable[[Tool], Sequence[str]]
"""Returns the texts of a tool that are embedded; each text gets its own vector."""

_MOST_READY = 256
"""The largest number of catalog versions that are known to be ready. For an evicted version the vectors are looked up again, in
milliseconds."""
_MOST_WAITING = 8
"""The largest number of catalogs that are embedded or wait for it, so that a client with a thousand new tools in each request
does not keep the process busy."""


class CatalogVectors:
    """Prepares the vectors of catalogs, and makes rankers that use these vectors once they are ready.

    `make` makes the vector ranker, and `meanwhile` the fallback ranker. `texts` returns the texts of a tool; it must return those
    that the vector ranker looks up. `patience`: seconds for which a request waits for the vectors of a new catalog.
    """

    def __init__(
        self,
        prepared: Prepared,
        make: RankerFactory,
        texts: ToolTexts,
        meanwhile: RankerFactory,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self.prepared = prepared
        self._make = make
        self._meanwhile = meanwhile
        self._texts = texts
        self._patience = patience
        self._ready: Bounded[str, bool] = Bounded(_MOST_READY)
        self._coming: dict[str, asyncio.Task[None]] = {}
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def ranker(self, catalog: Catalog, previous: Ranker | None = None) -> Ranker:
        """Makes the ranker of a catalog; this method is a `RankerFactory`. Until the catalog is ready, and while the embedder is
        down, the fallback ranker ranks in its place."""
        former = previous if isinstance(previous, _WhenReady) else None
        main = _Lazy(catalog, self._make, former and former.main.instance)
        fallback = _Lazy(catalog, self._meanwhile, former and former.fallback.instance)
        return _WhenReady(catalog, main, fallback, self._is_usable)

    def _is_usable(self, catalog: Catalog) -> bool:
        return self.is_ready(catalog) and not self.prepared.is_down

    def is_ready(self, catalog: Catalog) -> bool:
        return catalog.version in self._ready

    async def ready(self, catalog: Catalog, *, wait: bool = False) -> None:
        """Prepares a catalog's vectors in the background, unless they are ready or being prepared.

        The first caller waits for the vectors, at most `patience` seconds, so that a changed tool counts at once; later callers
        do not wait. A failure of the embedder is logged. With `wait`, every caller waits until the vectors are ready, and a
        failure raises `ProviderError` or `ConfigError`.
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
        """Cancels the preparation of catalogs and closes the embedder; finished vectors are kept."""
        coming = list(self._coming.values())
        for task in coming:
            task.cancel()
        if coming:
            await asyncio.wait(coming)
        await self.prepared.close()

    async def _prepared(self, catalog: Catalog) -> None:
        """Prepares a catalog in a background task. Errors are logged and not raised."""
        try:
            await self._prepare(catalog)
        except (ProviderError, ConfigError):
            pass  # logged at its source, once for all catalogs
        except Exception:  # nobody awaits this task, and an embedder from another package may raise anything
            log.exception("catalog_not_embedded", embedder=self.prepared.name, tools=len(catalog))

    async def _prepare(self, catalog: Catalog) -> None:
        """Makes the vectors of a catalog and marks it as ready. Raises the errors of the embedder."""
        started = time.monotonic()
        operator_texts, client_texts = await asyncio.to_thread(self._texts_by_owner, catalog)
        async with self._one_at_a_time():
            await self.prepared.prepare_lasting(operator_texts)
            # Tools that a client defines in its request are the client's data: their vectors are not written to disk.
            await self.prepared.prepare_lasting(client_texts, written=False)
        self._ready.put(catalog.version, True)
        if (seconds := time.monotonic() - started) > self._patience:
            log.info("catalog_embedded", embedder=self.prepared.name, tools=len(catalog), seconds=round(seconds, 1))

    def _texts_by_owner(self, catalog: Catalog) -> tuple[list[str], list[str]]:
        """Returns the texts of the operator's tools, and those of the tools that a client defined in its request."""
        operator_texts: list[str] = []
        client_texts: list[str] = []
        for tool in catalog.tools:
            texts = client_texts if tool.source == CLIENT_SOURCE else operator_texts
            texts.extend(self._texts(tool))
        return operator_texts, client_texts

    def _one_at_a_time(self) -> asyncio.Lock:
        """Returns the lock of the running event loop, under which one catalog at a time is prepared.

        Catalogs share most of their tools, so the second one finds the vectors that the first one made. A lock belongs to one
        event loop, and a process may run several loops, one after the other.
        """
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = (loop, asyncio.Lock())
        return self._turn[1]


class _WhenReady:
    """Delegates to the vector ranker once its vectors are ready, and to a fallback ranker until then."""

    name = "embedding"

    def __init__(self, catalog: Catalog, main: _Lazy, fallback: _Lazy, is_ready: Callable[[Catalog], bool]) -> None:
        self._catalog = catalog
        self.main = main
        self.fallback = fallback
        self._is_ready = is_ready

    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        current = self.main if self._is_ready(self._catalog) else self.fallback
        return current.ranker().rank(words, visible)


class _Lazy:
    """A ranker of one catalog, made when it is first needed."""

    def __init__(self, catalog: Catalog, factory: RankerFactory, previous: Ranker | None) -> None:
        self._catalog = catalog
        self._factory = factory
        self._previous = previous
        self.instance: Ranker | None = None

    def ranker(self) -> Ranker:
        if self.instance is None:  # two threads may both make the ranker; the two are equal
            self.instance = self._factory(self._catalog, self._previous)
            self._previous = None  # otherwise each ranker would keep all earlier ones alive
        return self.instance
