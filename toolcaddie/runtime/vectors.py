"""The vectors that a selection will compare, made ready before it: a selection does no I/O and waits for no one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ProviderError
from toolcaddie.core.presets import Preset, SelectionSettings
from toolcaddie.core.run import RunRequest
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.embedders.catalogs import CatalogVectors
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.ports import Embedder, RankerFactory, RemoteEmbedder, Store
from toolcaddie.runtime.coverage import searches
from toolcaddie.selection.query import query_words
from toolcaddie.selection.rankers import embedding, static

EMBEDDING = "embedding"
"""The ranker that compares vectors."""


class Vectors:
    """The vectors of one runtime: of whole catalogs, and of the words of requests."""

    def __init__(self, embedder: Embedder | RemoteEmbedder, documents: Store | None, *, patience: float) -> None:
        self.prepared = Prepared(embedder, documents, patience=patience)
        self._of_catalogs = CatalogVectors(
            self.prepared, embedding.factory(self.prepared), embedding.tool_texts, static.factory, patience=patience
        )
        self.is_remote = isinstance(embedder, RemoteEmbedder)

    @property
    def ranker(self) -> RankerFactory:
        """The ranker of a catalog whose vectors are there; until then another one stands in."""
        return self._of_catalogs.ranker

    @property
    def problem(self) -> str:
        """A sentence for an embedder that does not work now; empty: it works."""
        prepared = self.prepared
        if not prepared.problem:
            return ""
        return f"the embedder {prepared.name} failed ({prepared.problem}); words alone find the tools"

    async def make_ready(
        self, catalog: Catalog, settings: SelectionSettings, query: SelectionQuery, *, wait: bool = False
    ) -> None:
        """Makes the vectors of a request ready. Without `wait` it returns after `patience` seconds, ready or not."""
        texts = _embedded_texts(query, settings)
        await asyncio.gather(self._of_catalogs.ready(catalog, wait=wait), self.prepared.prepare(texts))

    async def make_all(
        self, catalog: Catalog, settings: SelectionSettings | None = None, requests: Iterable[RunRequest] = ()
    ) -> None:
        """Makes the vectors of the whole catalog however long it takes, and those of the requests where a server has to be
        asked for them. Raises `ProviderError`."""
        await self._of_catalogs.ready(catalog, wait=True)
        if self.is_remote and settings is not None:
            queries = (SelectionQuery(messages=request.messages) for request in requests)
            texts = [text for query in queries for text in _embedded_texts(query, settings)]
            await self.prepared.prepare_lasting(texts, written=False)

    async def begin(self, catalog: Catalog) -> None:
        """Begins with the vectors of a catalog; returns when they are there, and after `patience` seconds at most."""
        await self._of_catalogs.ready(catalog)

    async def close(self) -> None:
        await self._of_catalogs.close()


class PresetVectors:
    """The vectors that selections by one preset compare; where there is no embedder, or no ranker that reads vectors, there is
    nothing to do."""

    def __init__(self, vectors: Vectors | None, preset: Preset) -> None:
        self._vectors = vectors if EMBEDDING in preset.selection.rankers else None
        self._preset = preset

    async def prepare(self, view: View, query: SelectionQuery) -> None:
        """Makes the vectors ready that a selection would look at, or goes on without them."""
        if self._vectors is not None and searches(self._preset, view):
            await self._vectors.make_ready(view.catalog, self._preset.selection, query)

    def prepare_now(self, view: View, query: SelectionQuery) -> None:
        """`prepare` for callers who do not await. They wait to the end, in an event loop or not, so that the same request
        finds the same tools in both. A loop that runs stands still meanwhile, and nothing here waits for it."""
        if self._vectors is not None and searches(self._preset, view):
            _run_to_the_end(self._prepare_alone(self._vectors, view, query))

    async def begin(self, catalog: Catalog) -> None:
        if self._vectors is not None and searches(self._preset, View(catalog=catalog)):
            await self._vectors.begin(catalog)

    async def _prepare_alone(self, vectors: Vectors, view: View, query: SelectionQuery) -> None:
        try:
            await vectors.make_ready(view.catalog, self._preset.selection, query, wait=True)
        except ProviderError:
            pass  # logged where it happened
        finally:
            await vectors.prepared.close()  # its connections belong to this loop, which ends here


def _embedded_texts(query: SelectionQuery, settings: SelectionSettings) -> list[str]:
    words = query_words(query, window=settings.window, window_user=settings.window_user)
    return [text for text, _ in (*words.messages, *words.replies) if text.strip()]


def _run_to_the_end(job: Coroutine[Any, Any, None]) -> None:
    """Runs it in a loop of its own: inside of another one in a thread, because a thread has one loop at a time."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(job)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="toolcaddie-embed") as thread:
        thread.submit(copy_context().run, asyncio.run, job).result()
