"""Fetches the vectors of the tools that are near to a request from a database, and ranks by them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.ports import Ranker, Ranking, VectorIndex, Visible
from toolcaddie.runtime.shared_catalogs import SharedCatalog, rows_at
from toolcaddie.selection.index.languages import language_of_request
from toolcaddie.selection.index.near import Near
from toolcaddie.selection.index.postings import postings_of
from toolcaddie.selection.index.vectors import NEAREST
from toolcaddie.selection.rankers.embedding import SAMPLE, Embedding, belief_of, request_of
from toolcaddie.util.bounded import Bounded, Limit
from toolcaddie.util.replacing import replace

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

FEW = 5_000
"""The largest number of visible tools whose vectors are all fetched, once for each set of visible tools."""
_ENOUGH = 128
"""The least number of visible tools that a search must find."""
_WIDENED = 1.5
"""With hidden tools, factor on the number of tools that are searched, because near ones may be hidden more often than others."""
_WIDER = 4
"""Factor on the number of tools that are searched, if too few of them are visible."""
_MOST = 20_000
"""The largest number of tools that are searched."""
_REQUEST_BYTES = 32 * 1024 * 1024
"""The largest size in bytes of what was fetched for requests: enough for 150 that are selected for at the same time."""
_SET_BYTES = 32 * 1024 * 1024
"""The largest size in bytes of what was fetched for sets of visible tools."""


class Fetching:
    """Fetches vectors from `index` for requests whose own vectors `prepared` has."""

    def __init__(self, prepared: Prepared, index: VectorIndex) -> None:
        self._prepared = prepared
        self._index = index
        self._belief = belief_of(prepared)
        self._of_requests: Bounded[bytes, Near] = Bounded(None, Limit(_REQUEST_BYTES, _size_of))
        self._of_sets: Bounded[bytes, Near] = Bounded(None, Limit(_SET_BYTES, _size_of))

    async def fetch(self, shared: SharedCatalog, words: QueryWords, visible: Visible | None) -> None:
        """Fetches what `ranker` needs for this request. Raises `StorageError`, and `KeyError` if vectors are gone."""
        if not words.messages or self.near(shared.catalog, words, visible) is not None:
            return
        read = request_of(replace(words, language=language_of_request(words)), self._prepared, self._belief)
        if read is None:
            return
        if _is_small(shared.catalog, visible):
            self._of_sets.put(_key(shared.catalog, None, visible), await self._all(shared, visible))
        else:
            near = await self._near(shared, visible, read[-1])
            self._of_requests.put(_key(shared.catalog, words, visible), near)

    def ranker(self, catalog: Catalog, words: QueryWords, visible: Visible | None) -> Ranker | None:
        """Returns the ranker over what was fetched for a request; None: nothing was."""
        near = self.near(catalog, words, visible)
        if near is None:
            return None
        return Embedding(catalog, postings_of(catalog), self._prepared, belief=self._belief, near=near)

    def near(self, catalog: Catalog, words: QueryWords, visible: Visible | None) -> Near | None:
        """Returns what was fetched for a request; None: nothing was."""
        if _is_small(catalog, visible):
            return self._of_sets.get(_key(catalog, None, visible))
        return self._of_requests.get(_key(catalog, words, visible))

    async def _near(self, shared: SharedCatalog, visible: Visible | None, request: Floats) -> Near:
        positions = await self._nearest(shared, visible, request)
        rows = await rows_at(self._index, shared.space, shared.digests, positions)
        late = _shown(shared.late, visible)
        positions = np.concatenate([positions, shared.late[late]])
        order = np.argsort(positions)
        return Near(
            size=len(shared.catalog),
            shown=_count(shared.catalog, visible),
            positions=positions[order],
            rows=np.concatenate([rows, shared.late_rows[late]])[order].astype(np.float16),
            sampled=shared.sampled,
            sample_rows=shared.sample_rows,
            seen=slice(None) if visible is None else visible[shared.sampled],
        )

    async def _all(self, shared: SharedCatalog, visible: Visible | None) -> Near:
        """Returns the vectors of all visible tools."""
        stored, late = shared.digests.stored, _shown(shared.late, visible)
        stored = stored[_shown(stored, visible)]
        rows = np.concatenate(
            [await rows_at(self._index, shared.space, shared.digests, stored), shared.late_rows[late]]
        )
        positions = np.concatenate([stored, shared.late[late]])
        order = np.argsort(positions)
        return Near.all_of(len(shared.catalog), positions[order], rows[order], SAMPLE)

    async def _nearest(self, shared: SharedCatalog, visible: Visible | None, request: Floats) -> Ints:
        """Returns the positions of the nearest visible tools. The database does not know what the caller may see, and has tools
        of other catalogs, so it is asked for more until there are enough."""
        query, count = request.astype(np.float16).tobytes(), NEAREST
        if visible is not None:
            count = int(NEAREST * _WIDENED * len(visible) / _count(shared.catalog, visible))
        while True:
            digests = await self._index.nearest(shared.space, query, min(count, _MOST))
            positions = shared.digests.positions(digests)
            positions = positions[_shown(positions, visible)]
            if len(positions) >= _ENOUGH or count >= _MOST or len(digests) < count:
                return positions[:NEAREST]
            count *= _WIDER


class OfFetched:
    """Ranks by the vectors that were fetched for a request, and by a fallback ranker if none were."""

    name = "embedding"

    def __init__(
        self,
        ranker: Callable[[Catalog, QueryWords, Visible | None], Ranker | None],
        catalog: Catalog,
        fallback: Ranker,
    ) -> None:
        self._ranker = ranker
        self._catalog = catalog
        self.fallback = fallback

    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        return (self._ranker(self._catalog, words, visible) or self.fallback).rank(words, visible)


def _key(catalog: Catalog, words: QueryWords | None, visible: Visible | None) -> bytes:
    """Returns the key of what is fetched for a request, or (None) for all requests that see these tools."""
    texts = () if words is None else (words.messages, words.replies)
    content = f"{catalog.version} {texts!r} ".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content + (b"" if visible is None else visible.tobytes()), digest_size=16).digest()


def _is_small(catalog: Catalog, visible: Visible | None) -> bool:
    return _count(catalog, visible) <= FEW


def _count(catalog: Catalog, visible: Visible | None) -> int:
    return len(catalog) if visible is None else int(np.count_nonzero(visible))


def _shown(positions: Ints, visible: Visible | None) -> Visible:
    """Returns a flag for each position: True if the tool is visible."""
    return np.ones(len(positions), dtype=np.bool_) if visible is None else visible[positions]


def _size_of(near: Near) -> int:
    return near.rows.nbytes + near.positions.nbytes
