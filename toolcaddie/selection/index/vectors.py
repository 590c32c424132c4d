"""Cosines of the rows of a matrix to a query: of all rows by multiplication, or of the nearest by a graph if there are many."""

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
"""Rows up to which all are compared: 10 ms of one core at 384 numbers, and exact."""
NEAREST = 256
"""Rows that a graph returns for one query."""
_ENOUGH = 128
_WIDENED = 1.5
"""With a mask, factor on the number of rows that would suffice if near rows were hidden as often as others."""
_LEAST_VISIBLE = 0.25
"""Part of the rows below which looking through a graph for visible ones takes longer than comparing all."""

log = Logger(__name__)


class Vectors:
    """The rows of `matrix`, float32 [n, d], each of length 1 or all zeros. Safe for many threads.

    Above `most` rows, the package usearch finds the nearest ones (HNSW, Malkov and Yashunin 2016) if it is installed. The graph
    of 100,000 rows takes a minute or two, so it is built in a thread; until it is ready, and without the package, all rows are
    compared.
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
        """Waits until the graph is built, if there is to be one."""
        if self._builder is not None:
            self._builder.join()

    def cosines(self, query: Floats, mask: Visible | None = None) -> Floats:
        """Returns the cosines: float32 [n] for a query [d], or [m, n] for [m, d], of which each row has length 1.

        A hidden row has 0 and never displaces a visible one. With a graph, rows beyond the nearest few hundred have 0; the
        others have their exact cosines.
        """
        queries = np.atleast_2d(np.asarray(query, dtype=np.float32))
        cosines = self._of(queries, self._graph, mask)
        row: Floats = cosines if np.ndim(query) == 2 else cosines[0]
        return row

    def _build(self) -> None:
        self._graph = graph_of(self._matrix)
        if self._graph is None:
            hint = "pip install 'toolcaddie[vectors]' finds the nearest sooner"
            log.info("vectors_all_compared", rows=len(self._matrix), hint=hint)

    def _of(self, queries: Floats, graph: Graph | None, mask: Visible | None) -> Floats:
        if graph is None:
            return self._all(queries, mask)
        return np.stack([self._one(graph, row, mask) for row in queries])

    def _all(self, queries: Floats, mask: Visible | None) -> Floats:
        # One query at a time: together they cost four times as much, because the product then walks the matrix by columns.
        cosines: Floats = np.stack([self._matrix @ query for query in queries])
        if mask is not None:
            cosines[:, ~mask] = 0.0
        return cosines

    def _one(self, graph: Graph, query: Floats, mask: Visible | None) -> Floats:
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
