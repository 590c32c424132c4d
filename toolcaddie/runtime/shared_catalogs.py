"""What a process keeps of a catalog whose vectors are in a database: which tool has which vector, and a sample of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.tool import CLIENT_SOURCE
from toolcaddie.embedders.catalogs import ToolTexts
from toolcaddie.ports import VectorIndex, VectorSpace
from toolcaddie.selection.index.change import change_between

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_DIGEST_BYTES = 16
_NOWHERE = bytes(_DIGEST_BYTES)
"""Stands for the digest of a tool of the client, whose vector is in no database."""


class Digests:
    """The digest of each tool's texts, by position, and the way back. Immutable."""

    def __init__(self, catalog: Catalog, texts: ToolTexts, before: Digests | None = None) -> None:
        """`before`: those of another catalog, whose digests are used for tools that both have."""
        self.catalog = catalog
        self._digests = np.zeros((len(catalog), 2), dtype=np.uint64)
        positions: Sequence[int] = range(len(catalog))
        if before is not None:
            change = change_between(before.catalog, catalog)
            known = change.origin >= 0
            self._digests[known] = before._digests[change.origin[known]]
            positions = change.added.tolist()
        self.fresh = np.array(positions, dtype=np.int64)
        """The positions of the tools that the catalog before did not have, in order."""
        fresh = b"".join(_digest(texts, catalog, position) for position in positions)
        self._digests[self.fresh] = np.frombuffer(fresh, dtype=np.uint64).reshape(-1, 2)
        order = np.argsort(self._digests[:, 0], kind="stable")
        self._order = order[self._digests[order].any(axis=1)]
        self._sorted = self._digests[self._order, 0]

    @property
    def stored(self) -> Ints:
        """The positions of the tools whose vectors are in the database, in order."""
        return np.sort(self._order)

    @property
    def of_clients(self) -> Ints:
        """The positions of the tools that a client defined in its request, in order."""
        return np.flatnonzero(~self._digests.any(axis=1))

    def at(self, positions: Ints) -> list[bytes]:
        """Returns the digests of some tools."""
        return [row.tobytes() for row in self._digests[positions]]

    def positions(self, digests: Sequence[bytes]) -> Ints:
        """Returns the positions of the tools with these digests, in the order of the digests. Tools with the same texts have the
        same digest; digests of other catalogs are omitted."""
        wanted = np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)
        left = np.searchsorted(self._sorted, wanted[:, 0], side="left")
        counts = np.searchsorted(self._sorted, wanted[:, 0], side="right") - left
        which = np.repeat(np.arange(len(wanted)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        positions: Ints = self._order[left[which] + within]
        same: Ints = positions[self._digests[positions, 1] == wanted[which, 1]]
        return same


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedCatalog:
    """A catalog whose vectors are complete."""

    digests: Digests
    space: VectorSpace
    sampled: Ints
    """The positions of an even sample of all tools, in order."""
    sample_rows: Floats
    late: Ints
    """The positions of the client's own tools."""
    late_rows: Floats
    day: int
    """The day on which the use of the vectors was noted."""

    @property
    def catalog(self) -> Catalog:
        return self.digests.catalog


async def rows_at(index: VectorIndex, space: VectorSpace, digests: Digests, positions: Ints) -> Floats:
    """Returns the vectors of some tools from the database, as a matrix. Raises `KeyError` if one is missing."""
    wanted = digests.at(positions)
    rows = await index.rows(space, wanted)
    halves = np.frombuffer(b"".join(rows[digest] for digest in wanted), dtype=np.float16)
    return halves.astype(np.float32).reshape(len(wanted), space.dimensions)


def _digest(texts: ToolTexts, catalog: Catalog, position: int) -> bytes:
    tool = catalog.tools[position]
    if tool.source == CLIENT_SOURCE:
        return _NOWHERE
    content = "".join(f"{len(text)}:{text}" for text in texts(tool))
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
