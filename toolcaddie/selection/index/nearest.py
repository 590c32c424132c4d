"""The nearest rows by usearch, in half floats. Apart from `vectors`, because the package is optional."""

from __future__ import annotations

from typing import Any

import numpy as np
from usearch.index import Index

from toolcaddie.selection.index.vectors import Floats, Ints

_THREADS = 1
"""More would put the rows in by chance's order, and the same catalog would find other tools in another process."""


class UsearchNearest:
    """A graph made of all rows at once; it is not changed afterwards."""

    def __init__(self, matrix: Floats) -> None:
        self._index: Any = Index(ndim=matrix.shape[1], metric="ip", dtype="f16", expansion_add=64)
        self._index.add(np.arange(len(matrix), dtype=np.uint64), matrix, threads=_THREADS)

    def __call__(self, query: Floats, count: int) -> Ints:
        rows: Ints = np.asarray(self._index.search(query, count, threads=_THREADS).keys, dtype=np.int64)
        return rows
