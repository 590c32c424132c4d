"""Makes the vectors of a large catalog that are not in the database yet. Several processes that do this at the same time share
the work: each takes the parts that no other one has."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.tool import Tool
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.ports import VectorIndex, VectorSpace
from toolcaddie.runtime.shared_catalogs import Digests, SharedCatalog, rows_at
from toolcaddie.selection.rankers.embedding import SAMPLE, belief_of, combined, space_name, tool_texts, vectors_of

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_PARTS = 16
"""The number of parts of the work, and so the largest number of processes that share it."""
_AT_ONCE = 128
"""The number of tools whose vectors are written at once."""
_LOOK_SECONDS = 0.25
"""Seconds until a process that waits for others looks again."""
_GRAPH = -1
"""The part that builds the search."""
_UNUSED_DAYS = 30
"""Days after which a vector that no catalog has any more is removed."""


class Filling:
    """Makes vectors by `prepared`, and writes them to `index`."""

    def __init__(self, prepared: Prepared, index: VectorIndex) -> None:
        self._prepared = prepared
        self._index = index
        self._belief = belief_of(prepared)
        self._texts = partial(tool_texts, belief=self._belief)

    async def filled(self, catalog: Catalog, before: SharedCatalog | None, *, day: int) -> SharedCatalog:
        """Returns the catalog when each of its tools has a vector. `before`: one that was filled on the same day, whose tools are
        not looked up again. Raises the errors of the embedder and of the database, and `KeyError` if vectors of `before` are
        gone."""
        digests = await asyncio.to_thread(Digests, catalog, self._texts, None if before is None else before.digests)
        space, stored = await self._space(catalog), digests.stored
        fresh = stored if before is None else np.intersect1d(stored, digests.fresh, assume_unique=True)
        tools = {digest: catalog.tools[at] for digest, at in zip(digests.at(fresh), fresh.tolist(), strict=True)}
        # Noted before it is known which are there, so that no other process removes them in between.
        await self._index.touch(space, list(tools), day=day)
        await self._fill(space, tools)
        sampled, late = stored[:: max(1, len(stored) // SAMPLE)], digests.of_clients
        return SharedCatalog(
            digests=digests,
            space=space,
            sampled=sampled,
            sample_rows=await rows_at(self._index, space, digests, sampled),
            late=late,
            late_rows=await self._late_rows(catalog, late),
            day=day,
        )

    async def finish(self, shared: SharedCatalog) -> None:
        """Builds what makes the search fast, unless another process does, and removes the vectors that nobody uses any more."""
        await self._index.claimed(shared.space, _GRAPH, partial(self._index.complete, shared.space))
        await self._index.remove_unused(before=shared.day - _UNUSED_DAYS)

    async def _space(self, catalog: Catalog) -> VectorSpace:
        """Returns the space of the embedder. A server tells the length of its vectors with the first one."""
        if not self._prepared.dimensions:
            await self._prepared.made(self._texts(catalog.tools[0])[:1])
        dimensions = self._prepared.dimensions
        return VectorSpace(name=f"{space_name(self._prepared, self._belief)} {dimensions}", dimensions=dimensions)

    async def _fill(self, space: VectorSpace, tools: Mapping[bytes, Tool]) -> None:
        missing = await self._index.missing(space, list(tools))
        while missing:
            has_worked = False
            for part in random.sample(range(_PARTS), _PARTS):
                some = sorted(digest for digest in missing if digest[0] % _PARTS == part)
                if some:
                    has_worked |= await self._index.claimed(space, part, partial(self._add, space, some, tools))
            missing = await self._index.missing(space, sorted(missing))
            if missing and not has_worked:
                await asyncio.sleep(_LOOK_SECONDS)

    async def _add(self, space: VectorSpace, digests: Sequence[bytes], tools: Mapping[bytes, Tool]) -> None:
        """Makes and writes the vectors that are still missing: another process may have made some."""
        missing = sorted(await self._index.missing(space, digests))
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            rows = (await self._vectors([tools[digest] for digest in some])).astype(np.float16)
            await self._index.add(space, {digest: row.tobytes() for digest, row in zip(some, rows, strict=True)})

    async def _vectors(self, tools: Sequence[Tool]) -> Floats:
        texts = [self._texts(tool) for tool in tools]
        flat = await self._prepared.made([text for column in zip(*texts, strict=True) for text in column])
        return combined(np.split(flat, len(texts[0])), self._belief)

    async def _late_rows(self, catalog: Catalog, late: Ints) -> Floats:
        """Returns the vectors of the client's own tools, which are not written to disk."""
        if not len(late):
            return np.zeros((0, self._prepared.dimensions), dtype=np.float32)
        tools = [catalog.tools[at] for at in late.tolist()]
        await self._prepared.prepare_lasting([text for tool in tools for text in self._texts(tool)], written=False)
        return vectors_of(tools, self._prepared, self._belief)
