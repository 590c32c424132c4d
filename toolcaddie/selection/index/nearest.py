"""The rows of a matrix nearest to a query, by a graph of the optional package usearch, in half floats."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_THREADS = 1
"""With more, the rows are inserted in a random order, and the same catalog gives other tools in another process."""


class Graph:
    """A graph made of all rows at once; it is not changed afterwards. It may miss some of the nearest rows."""

    def __init__(self, index: Any) -> None:
        self._index = index

    def nearest(self, query: Floats, count: int) -> Ints:
        """Returns about `count` rows nearest to a query of shape [d], in any order."""
        rows: Ints = np.asarray(self._index.search(query, count, threads=_THREADS).keys, dtype=np.int64)
        return rows


def graph_of(matrix: Floats) -> Graph | None:
    """Builds the graph of a matrix, or returns None without usearch. The package is loaded here, because it takes 0.3 s and few
    catalogs have so many rows."""
    try:
        usearch = importlib.import_module("usearch.index")
    except ImportError:
        return None
    index = usearch.Index(ndim=matrix.shape[1], metric="ip", dtype="f16", expansion_add=64)
    index.add(np.arange(len(matrix), dtype=np.uint64), matrix, threads=_THREADS)
    return Graph(index)
