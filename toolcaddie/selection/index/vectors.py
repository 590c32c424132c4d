"""Rows of a matrix by their cosine to a query: all by multiplication, or the nearest by a graph where all are too many."""

from __future__ import annotations

import importlib
import threading
from typing import Protocol

import numpy as np
import numpy.typing as npt

from toolcaddie.ports import Visible
from toolcaddie.util.log import Logger

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

MOST_BY_MULTIPLICATION = 30_000
"""Rows up to which all are compared: 10 ms of one core at 384 numbers, and exact."""
NEAREST = 256
"""Rows that a graph gives for one query."""
_ENOUGH = 128
_WIDENED = 1.5
"""With a mask, the factor on the number of rows that would suffice if near rows were hidden as often as others."""
_LEAST_VISIBLE = 0.25
"""Part of the rows below which looking through a graph for visible ones takes longer than comparing all."""

log = Logger(__name__)


class Nearest(Protocol):
    """A graph over rows. It may miss some of the nearest; what it names is near."""

    def __call__(self, query: Floats, count: int) -> Ints:
        """About `count` rows nearest to a query of shape [d], in any order."""
        ...


class Vectors:
    """The rows of `matrix`, float32 [n, d], each of length 1 or all zeros. Safe for many threads.

    Above `most` rows the package usearch finds the nearest (HNSW, Malkov and Yashunin 2016) where it is installed. The graph
    takes a minute or two for 100,000 rows, so it is built in a thread: until it is ready all rows are compared, as they are
    without the package.
    """

    def __init__(self, matrix: Floats, *, most: int = MOST_BY_MULTIPLICATION) -> None:
        self._matrix = np.ascontiguousarray(matrix, dtype=np.float32)
        self._nearest: Nearest | None = None
        self._making: threading.Thread | None = None
        if len(matrix) > most:
            self._making = threading.Thread(target=self._make, name="toolcaddie-graph", daemon=True)
            self._making.start()

    def __len__(self) -> int:
        return len(self._matrix)

    def wait(self) -> None:
        """Returns when the graph is built, if there is to be one."""
        if self._making is not None:
            self._making.join()

    def cosines(self, query: Floats, mask: Visible | None = None) -> Floats:
        """float32 [n] for a query [d], or [m, n] for [m, d], of which each row has length 1.

        A hidden row has 0 and never takes the place of a visible one. With a graph, rows beyond the nearest few hundred have
        0; the others have their exact cosines.
        """
        queries = np.atleast_2d(np.asarray(query, dtype=np.float32))
        cosines = self._of(queries, self._nearest, mask)
        row: Floats = cosines if np.ndim(query) == 2 else cosines[0]
        return row

    def _make(self) -> None:
        try:
            self._nearest = importlib.import_module("toolcaddie.selection.index.nearest").UsearchNearest(self._matrix)
        except ImportError:
            hint = "pip install 'toolcaddie[vectors]' finds the nearest sooner"
            log.info("vectors_all_compared", rows=len(self._matrix), hint=hint)

    def _of(self, queries: Floats, nearest: Nearest | None, mask: Visible | None) -> Floats:
        if nearest is None:
            return self._all(queries, mask)
        return np.stack([self._one(nearest, row, mask) for row in queries])

    def _all(self, queries: Floats, mask: Visible | None) -> Floats:
        # One query at a time: together they cost four times as much, because the product then walks the matrix by columns.
        cosines: Floats = np.stack([self._matrix @ query for query in queries])
        if mask is not None:
            cosines[:, ~mask] = 0.0
        return cosines

    def _one(self, nearest: Nearest, query: Floats, mask: Visible | None) -> Floats:
        rows = _rows(nearest, query, mask)
        cosines: Floats = np.zeros(len(self._matrix), dtype=np.float32)
        if rows is None:
            cosines[:] = self._all(query[None], mask)[0]
        else:
            cosines[rows] = self._matrix[rows] @ query
        return cosines


def _rows(nearest: Nearest, query: Floats, mask: Visible | None) -> Ints | None:
    """The nearest visible rows; None: so few of the near ones are visible that all rows must be compared."""
    if mask is None:
        return nearest(query, NEAREST)
    visible = float(mask.mean())
    if visible < _LEAST_VISIBLE:
        return None
    near = nearest(query, int(NEAREST * _WIDENED / visible))
    visible_rows: Ints = near[mask[near]]
    return visible_rows if len(visible_rows) >= _ENOUGH else None
