"""Computes the cosines of the rows of a matrix to a query: of all rows by multiplication, or, if there are many rows, of the
nearest ones that a graph finds."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from toolcaddie.ports import Visible
from toolcaddie.selection.index.change import are_too_many
from toolcaddie.selection.index.nearest import Graph, graph_of
from toolcaddie.util.log import Logger

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

MOST_BY_MULTIPLICATION = 30_000
"""The largest number of rows that are all compared, which is exact and takes 2 ms of one core at 384 dimensions."""
NEAREST = 256
"""The number of rows that a graph returns for one query."""
_ENOUGH = 128
"""The least number of visible rows that a graph must find; if it finds fewer, all rows are compared."""
_WIDENED = 1.5
"""With a mask, factor on the number of rows that are searched, because near rows may be hidden more often than others."""
_LEAST_VISIBLE = 0.25
"""The least share of visible rows for which the graph is used; with fewer, comparing all rows is faster."""

log = Logger(__name__)


class _Matrix:
    """A matrix, float32 [n, d], and its graph as soon as it is built, which is only done for more than `most` rows.

    A matrix that is multiplied whole is stored by column, because the product of a large one then takes half the time. With a
    graph it is stored by row, because each request then reads a few rows.
    """

    def __init__(self, rows: Floats, most: int) -> None:
        self.rows = np.asarray(rows, dtype=np.float32, order="C" if len(rows) > most else "F")
        self.graph: Graph | None = None
        self._builder: threading.Thread | None = None
        if len(rows) > most:
            self._builder = threading.Thread(target=self._build, name="toolcaddie-graph", daemon=True)
            self._builder.start()

    def wait(self) -> None:
        if self._builder is not None:
            self._builder.join()

    def _build(self) -> None:
        self.graph = graph_of(self.rows)
        if self.graph is None:
            self.rows = np.asfortranarray(self.rows)
            hint = "pip install 'toolcaddie[vectors]' makes the search of this catalog faster"
            log.info("vectors_all_compared", rows=len(self.rows), hint=hint)


class Vectors:
    """The rows of `matrix`, float32 [n, d], each of length 1 or all zeros. Safe for many threads.

    With more than `most` rows, the package usearch finds the nearest rows (HNSW, Malkov and Yashunin 2016) if it is installed.
    The graph of 100,000 rows takes a minute or two, so it is built in another thread. Until it is ready, and without the package,
    all rows are compared.

    Vectors never change; `changed` returns others, which share the matrix and its graph and have few more rows (`late`).
    """

    def __init__(self, matrix: Floats, *, most: int = MOST_BY_MULTIPLICATION) -> None:
        self._begin(_Matrix(matrix, most), np.asarray(matrix[:0], dtype=np.float32), None, most)

    def _begin(self, early: _Matrix, late: Floats, places: Ints | None, most: int) -> None:
        """Sets all attributes of a new object. `changed` uses this too, so it is not part of `__init__`."""
        self._early = early
        self._late = late
        self._places = places
        """Place of each row in the matrix, or behind it in `late`; None: the rows are those of the matrix."""
        self._most = most

    def changed(self, origin: Ints, added: Floats) -> Vectors:
        """Returns the rows at these positions; where `origin` is -1, the next row of `added`."""
        late = np.concatenate([self._late, added])
        total = len(self._early.rows) + len(late)
        places = origin.copy() if self._places is None else self._places[origin]
        places[origin < 0] = np.arange(total - len(added), total)
        after = object.__new__(Vectors)
        after._begin(self._early, late, places, self._most)
        loose = total - len(places) + len(late)
        if are_too_many(loose, len(places)):
            return Vectors(after.at(np.arange(len(places))), most=self._most)
        return after

    def __len__(self) -> int:
        return len(self._early.rows) if self._places is None else len(self._places)

    def wait(self) -> None:
        """Waits until the graph is built; returns at once if the matrix needs none."""
        self._early.wait()

    @property
    def has_graph(self) -> bool:
        """True if `cosines` knows only the nearest rows."""
        return self._early.graph is not None

    def sample(self, visible: Visible | None, most: int) -> Ints | slice:
        """Returns the positions of an even sample of the visible rows, between `most` and twice as many if there are more."""
        total = len(self) if visible is None else int(visible.sum())
        step = max(1, total // most)
        return slice(None, None, step) if visible is None else np.flatnonzero(visible)[::step]

    def at(self, positions: Ints | slice) -> Floats:
        """Returns some rows."""
        early = self._early.rows
        if self._places is None:
            rows: Floats = early[positions]
            return rows
        places = self._places[positions]
        rows = (
            early[np.minimum(places, len(early) - 1)]
            if len(early)
            else np.empty((len(places), early.shape[1]), np.float32)
        )
        is_late = places >= len(early)
        rows[is_late] = self._late[places[is_late] - len(early)]
        return rows

    def cosines(self, query: Floats, mask: Visible | None = None) -> Floats:
        """Returns the cosines of a query of shape [d] and length 1 to all rows, float32 [n]; for m queries, [m, d] gives [m, n].

        A hidden row has 0 and never displaces a visible row. With a graph, the nearest few hundred rows have their exact cosines,
        and all others have 0.
        """
        graph, queries = self._early.graph, np.asarray(query, dtype=np.float32)
        # One query at a time, because one product of all queries takes longer.
        return (
            self._one(graph, queries, mask)
            if queries.ndim == 1
            else np.stack([self._one(graph, each, mask) for each in queries])
        )

    def _one(self, graph: Graph | None, query: Floats, mask: Visible | None) -> Floats:
        """Returns the cosines of one query: of all rows, or if there is a graph of the rows that it finds and of late rows, and 0
        for all others. If the graph finds too few visible rows, all rows are compared."""
        matrix = self._early.rows
        near = None if graph is None else _rows(graph, query, None if mask is None else self._shown(mask))
        if near is None:
            early = matrix @ query
        else:
            early = np.zeros(len(matrix), dtype=np.float32)
            early[near] = matrix[near] @ query
        cosines: Floats = early if self._places is None else np.concatenate([early, self._late @ query])[self._places]
        if mask is not None:
            cosines[~mask] = 0.0
        return cosines

    def _shown(self, mask: Visible) -> Visible:
        """Returns a flag for each row of the matrix: True if it is visible; removed rows are not."""
        if self._places is None:
            return mask
        shown = np.zeros(len(self._early.rows) + len(self._late), dtype=np.bool_)
        shown[self._places] = mask
        return shown[: len(self._early.rows)]


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
