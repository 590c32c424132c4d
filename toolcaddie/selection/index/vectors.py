"""Computes the cosines of the rows of a matrix to a query: of all rows by multiplication, or, if there are many rows, of the
nearest ones that a graph finds."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from toolcaddie.ports import Visible
from toolcaddie.selection.index.nearest import Graph, graph_of
from toolcaddie.util.log import Logger

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

MOST_BY_MULTIPLICATION = 30_000
"""The largest number of rows that are all compared, which is exact and takes 10 ms of one core at 384 dimensions."""
NEAREST = 256
"""The number of rows that a graph returns for one query."""
_ENOUGH = 128
"""The least number of visible rows that a graph must find; if it finds fewer, all rows are compared."""
_WIDENED = 1.5
"""With a mask, factor on the number of rows that are searched, because near rows may be hidden more often than others."""
_LEAST_VISIBLE = 0.25
"""The least share of visible rows for which the graph is used; with fewer, comparing all rows is faster."""

log = Logger(__name__)


class Vectors:
    """The rows of `matrix`, float32 [n, d], each of length 1 or all zeros. Safe for many threads.

    With more than `most` rows, the package usearch finds the nearest rows (HNSW, Malkov and Yashunin 2016) if it is installed.
    The graph of 100,000 rows takes a minute or two, so it is built in another thread. Until it is ready, and without the package,
    all rows are compared.
    """

    def __init__(self, matrix: Floats, *, most: int = MOST_BY_MULTIPLICATION) -> None:
        self._matrix = np.ascontiguousarray(matrix, dtype=np.float32)
        self._graph: Graph | None = None
        self._builder: threading.Thread | None = None
        if len(matrix) > most:
            self._builder = threading.Thread(target=self._build, name="toolcaddie-graph", daemon=True)
            self._builder.start()

    def __len__(self) -> int:
        return len(self._matrix)

    def wait(self) -> None:
        """Waits until the graph is built; returns at once if the matrix needs none."""
        if self._builder is not None:
            self._builder.join()

    def cosines(self, query: Floats, mask: Visible | None = None) -> Floats:
        """Returns the cosines of a query of shape [d] and length 1 to all rows, float32 [n]; for m queries, [m, d] gives [m, n].

        A hidden row has 0 and never displaces a visible row. With a graph, the nearest few hundred rows have their exact cosines,
        and all others have 0.
        """
        queries = np.atleast_2d(np.asarray(query, dtype=np.float32))
        cosines = self._of(queries, self._graph, mask)
        row: Floats = cosines if np.ndim(query) == 2 else cosines[0]
        return row

    def _build(self) -> None:
        self._graph = graph_of(self._matrix)
        if self._graph is None:
            hint = "pip install 'toolcaddie[vectors]' makes the search of this catalog faster"
            log.info("vectors_all_compared", rows=len(self._matrix), hint=hint)

    def _of(self, queries: Floats, graph: Graph | None, mask: Visible | None) -> Floats:
        """Returns the cosines of several queries to all rows, by the graph if there is one."""
        if graph is None:
            return self._all(queries, mask)
        return np.stack([self._one(graph, row, mask) for row in queries])

    def _all(self, queries: Floats, mask: Visible | None) -> Floats:
        """Returns the cosines of several queries to all rows, by multiplication."""
        # One query at a time: one product of all queries takes four times as long, because it reads the matrix by columns.
        cosines: Floats = np.stack([self._matrix @ query for query in queries])
        if mask is not None:
            cosines[:, ~mask] = 0.0
        return cosines

    def _one(self, graph: Graph, query: Floats, mask: Visible | None) -> Floats:
        """Returns the cosines of one query: exact for the rows that the graph finds, and 0 for all others. If the graph finds too
        few visible rows, all rows are compared."""
        rows = _rows(graph, query, mask)
        cosines: Floats = np.zeros(len(self._matrix), dtype=np.float32)
        if rows is None:
            cosines[:] = self._all(query[None], mask)[0]
        else:
            cosines[rows] = self._matrix[rows] @ query
        return cosines


def _rows(graph: Graph, query: Floats, mask: Visible | None) -> Ints | None:
    """Returns the nearest visible rows, or None if so few near rows are visible that all rows must be compared."""
    if mask is None:
        return graph.nearest(query, NEAREST)
    visible = float(mask.mean())
    if visible < _LEAST_VISIBLE:
        return None
    near = graph.nearest(query, int(NEAREST * _WIDENED / visible))
    visible_rows: Ints = near[mask[near]]
    return visible_rows if len(visible_rows) >= _ENOUGH else None
