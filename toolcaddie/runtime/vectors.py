"""Prepares the vectors that a selection compares, if there is an embedder. They are made before the selection, because a
selection does no I/O and never waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError, ProviderError, StorageError
from toolcaddie.core.presets import Preset, SelectionSettings
from toolcaddie.core.run import RunRequest
from toolcaddie.core.selection import QueryWords, SelectionQuery
from toolcaddie.embedders.catalogs import CatalogVectors
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.ports import Embedder, RankerFactory, RemoteEmbedder, Store, VectorIndex
from toolcaddie.runtime.coverage import searches
from toolcaddie.runtime.shared_vectors import SharedVectors
from toolcaddie.selection.query import query_words
from toolcaddie.selection.rankers import embedding, static

MOST_IN_MEMORY = 30_000
"""The largest number of tools whose vectors are compared in memory, if there is a database that can search them."""
EMBEDDING = "embedding"
"""Name of the ranker that compares vectors."""


class Vectors:
    """The vectors of one runtime: those of the tools of whole catalogs, and those of the texts of requests."""

    def __init__(
        self,
        embedder: Embedder | RemoteEmbedder,
        documents: Store | None,
        *,
        patience: float,
        index: VectorIndex | None = None,
        most_in_memory: int = MOST_IN_MEMORY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`index`: holds and searches the vectors of catalogs with more than `most_in_memory` tools; None: all are in memory."""
        self.prepared = Prepared(embedder, documents, patience=patience)
        self._shared = (
            None
            if index is None
            else SharedVectors(self.prepared, index, most=most_in_memory, patience=patience, clock=clock)
        )
        self._of_catalogs = CatalogVectors(
            self.prepared,
            embedding.factory(self.prepared),
            partial(embedding.tool_texts, belief=embedding.belief_of(embedder)),
            static.factory,
            patience=patience,
        )
        self.is_remote = isinstance(embedder, RemoteEmbedder)

    @property
    def rankers(self) -> dict[str, RankerFactory]:
        """The factories of the rankers by meaning. Until the vectors of a catalog are complete, the ranker `static` takes the
        place of `embedding`."""
        in_memory = self._of_catalogs.ranker
        main = in_memory if self._shared is None else self._shared.ranker(in_memory)
        return static.with_embedder(self.prepared, main)

    @property
    def problem(self) -> str:
        """A sentence about an embedder, or a database of vectors, that does not work at the moment; empty: they work."""
        prepared = self.prepared
        if not prepared.problem:
            return "" if self._shared is None else self._shared.problem
        return f"the embedder {prepared.name} failed ({prepared.problem}); words alone find the tools"

    def failure(self, catalog: Catalog) -> str:
        """Returns a sentence about the part without which requests over this catalog are selected at the moment; empty: none is
        missing. It is recorded with each request, where its tenant reads it, so the reason, which may name addresses and users,
        is left to `problem`."""
        if self.prepared.problem:
            return "the embedder failed; words alone find the tools"  # its name may have an address too
        return "" if self._shared is None else self._shared.failure(catalog)

    async def make_ready(
        self, view: View, settings: SelectionSettings, query: SelectionQuery, *, wait: bool = False
    ) -> None:
        """Makes the vectors of the catalog and of a request, and fetches those that are in a database. Unless `wait` is True,
        each step returns after at most `patience` seconds, even if some are missing."""
        words = query_words(query, window=settings.window, window_user=settings.window_user)
        await asyncio.gather(self._ready(view.catalog, wait=wait), self.prepared.prepare(_texts(words)))
        if self._shared is not None:
            await self._shared.fetch(view, words)

    async def make_all(
        self, catalog: Catalog, settings: SelectionSettings | None = None, requests: Iterable[RunRequest] = ()
    ) -> None:
        """Makes the vectors of the whole catalog, however long that takes, and those of the `requests` if the embedder is a
        server. Raises `ProviderError`."""
        await self._ready(catalog, wait=True)
        if self.is_remote and settings is not None:
            queries = (SelectionQuery(messages=request.messages) for request in requests)
            windows = {"window": settings.window, "window_user": settings.window_user}
            texts = [text for query in queries for text in _texts(query_words(query, **windows))]
            await self.prepared.prepare_lasting(texts, written=False)

    async def begin(self, catalog: Catalog) -> None:
        """Starts to make the vectors of a catalog. Returns when they are complete, or after `patience` seconds."""
        await self._ready(catalog)

    async def require(self, catalog: Catalog) -> None:
        """Raises `ConfigError` if the vectors of this catalog belong in a database that cannot search them."""
        if self._shared is None or await self._shared.covers(catalog, wait=True):
            return
        if self._shared.problem:
            raise ConfigError(self._shared.problem)

    async def close(self) -> None:
        if self._shared is not None:
            await self._shared.close()
        await self._of_catalogs.close()

    async def _ready(self, catalog: Catalog, *, wait: bool = False) -> None:
        is_shared = self._shared is not None and await self._shared.covers(catalog, wait=wait)
        ready = self._shared.ready if self._shared is not None and is_shared else self._of_catalogs.ready
        await ready(catalog, wait=wait)


class PresetVectors:
    """Prepares the vectors for selections by one preset. If there is no embedder, or if no ranker of the preset compares vectors,
    all methods do nothing."""

    def __init__(self, vectors: Vectors | None, preset: Preset) -> None:
        self._vectors = vectors if EMBEDDING in preset.selection.rankers else None
        self._preset = preset

    def failure(self, catalog: Catalog) -> str:
        """Returns a sentence about the part without which requests are selected at the moment; empty: none is missing."""
        return "" if self._vectors is None else self._vectors.failure(catalog)

    async def prepare(self, view: View, query: SelectionQuery) -> None:
        """Prepares the vectors that a selection needs. Those that are not ready in time are not used."""
        if self._vectors is not None and searches(self._preset, view):
            await self._vectors.make_ready(view, self._preset.selection, query)

    def prepare_now(self, view: View, query: SelectionQuery) -> None:
        """Does the same as `prepare` for synchronous callers. It blocks until all vectors are made, also inside an event loop, so
        that the same request always gets the same tools."""
        if self._vectors is not None and searches(self._preset, view):
            _run_to_the_end(self._prepare_alone(self._vectors, view, query))

    async def begin(self, catalog: Catalog) -> None:
        """Starts to make the vectors of a catalog, if the preset needs them."""
        if self._vectors is not None and searches(self._preset, View(catalog=catalog)):
            await self._vectors.begin(catalog)

    async def _prepare_alone(self, vectors: Vectors, view: View, query: SelectionQuery) -> None:
        """Prepares the vectors in an event loop of its own, without a time limit; a failure of the embedder is ignored."""
        try:
            await vectors.make_ready(view, self._preset.selection, query, wait=True)
        except (ProviderError, StorageError):
            pass  # logged where it happened
        finally:
            await vectors.prepared.close()  # its connections belong to this loop, which ends here


def _texts(words: QueryWords) -> list[str]:
    return [text for text, _ in (*words.messages, *words.replies) if text.strip()]


def _run_to_the_end(job: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine to its end in a new event loop. If a loop is running in this thread, the new one runs in another
    thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(job)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="toolcaddie-embed") as thread:
        thread.submit(copy_context().run, asyncio.run, job).result()
