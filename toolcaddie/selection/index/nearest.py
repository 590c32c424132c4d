"""Finds the rows of a matrix that are nearest to a query, by a graph (HNSW) of half floats from the optional package usearch."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_THREADS = 1
"""With more threads, rows are inserted in a random order, and the same catalog gives different tools in different processes."""


class Graph:
    """A graph of all rows, which never changes. A search may miss some of the nearest rows."""

    def __init__(self, index: Any) -> None:
        self._index = index

    def nearest(self, query: Floats, count: int) -> Ints:
        """Returns about `count` rows nearest to a query of shape [d], in any order."""
        rows: Ints = np.asarray(self._index.search(query, count, threads=_THREADS).keys, dtype=np.int64)
        return rows


def graph_of(matrix: Floats) -> Graph | None:
    """Builds the graph of a matrix; returns None if usearch is not installed. The package is imported here, because the import
    takes 0.3 s and few catalogs are large enough to need it."""
    with suppress(ImportError):
        importlib.import_module("onnxruntime")  # some versions of it crash the process if they are loaded after usearch
    try:
        usearch = importlib.import_module("usearch.index")
    except ImportError:
        return None
    index = usearch.Index(ndim=matrix.shape[1], metric="ip", dtype="f16", expansion_add=64)
    index.add(np.arange(len(matrix), dtype=np.uint64), matrix, threads=_THREADS)
    return Graph(index)
