"""The vectors of whole catalogs, made in other threads while requests go on. Until the vectors of a catalog are ready, its tools
are found by their words alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.core.tool import CLIENT_SOURCE, Tool
from toolcaddie.embedders.preparation import Preparation
from toolcaddie.embedders.prepared import PATIENCE, Prepared
from toolcaddie.ports import Ranker, RankerFactory, Ranking, Visible

ToolTexts = Callable[[Tool], Sequence[str]]
"""Returns the texts of a tool that are embedded; each text gets its own vector."""


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
        self._preparation = Preparation(prepared.name, self._prepare, patience=patience)

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
        return self._preparation.is_ready(catalog)

    async def ready(self, catalog: Catalog, *, wait: bool = False) -> None:
        """Prepares a catalog's vectors in the background; see `Preparation.ready`."""
        await self._preparation.ready(catalog, wait=wait)

    async def close(self) -> None:
        """Cancels the preparation of catalogs and closes the embedder; finished vectors are kept."""
        await self._preparation.close()
        await self.prepared.close()

    async def _prepare(self, catalog: Catalog) -> None:
        """Makes the vectors of a catalog. Raises the errors of the embedder."""
        operator_texts, client_texts = await asyncio.to_thread(self._texts_by_owner, catalog)
        await self.prepared.prepare_lasting(operator_texts)
        # Tools that a client defines in its request are the client's data: their vectors are not written to disk.
        await self.prepared.prepare_lasting(client_texts, written=False)

    def _texts_by_owner(self, catalog: Catalog) -> tuple[list[str], list[str]]:
        """Returns the texts of the operator's tools, and those of the tools that a client defined in its request."""
        operator_texts: list[str] = []
        client_texts: list[str] = []
        for tool in catalog.tools:
            texts = client_texts if tool.source == CLIENT_SOURCE else operator_texts
            texts.extend(self._texts(tool))
        return operator_texts, client_texts


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
