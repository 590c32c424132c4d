"""Interface for vectors of tools that several processes share, with a search for the nearest of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSpace:
    """Vectors that can be compared with each other: those of one embedder, made in one way."""

    name: str
    dimensions: int


class VectorIndex(Protocol):
    """Vectors as bytes of half floats, by the digest of what they were made from. Nearness is the inner product.

    Every method raises `StorageError` if the vectors cannot be read or written.
    """

    async def open(self) -> None:
        """Makes what is missing; does nothing the second time. Raises `ConfigError` saying what to do if the database cannot
        search vectors."""
        ...

    async def missing(self, space: VectorSpace, digests: Sequence[bytes]) -> frozenset[bytes]:
        """Returns those of the digests that have no vector."""
        ...

    async def add(self, space: VectorSpace, rows: Mapping[bytes, bytes]) -> None:
        """Adds vectors by digest; one that is there already stays."""
        ...

    async def claimed(self, space: VectorSpace, part: int, work: Callable[[], Awaitable[None]]) -> bool:
        """Does the work of a part of the space, which no other process does meanwhile. Returns False, without doing it, if
        another process does."""
        ...

    async def complete(self, space: VectorSpace) -> None:
        """Builds what makes the search of a space fast, unless it is there."""
        ...

    async def nearest(self, space: VectorSpace, query: bytes, count: int) -> Sequence[bytes]:
        """Returns about `count` digests whose vectors are nearest to a query, the nearest first. It may miss some."""
        ...

    async def rows(self, space: VectorSpace, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Returns the vectors of those digests that have one."""
        ...

    async def touch(self, space: VectorSpace, digests: Sequence[bytes], *, day: int) -> None:
        """Notes that these vectors were in use on a day, counted since the epoch."""
        ...

    async def remove_unused(self, *, before: int) -> int:
        """Removes the vectors that were not in use since a day, and returns their number."""
        ...

    async def close(self) -> None: ...
