"""Sparse matrices to which rows can be added: the terms of tools, the n-grams of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.util.replacing import replace

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BLOCK = 4_096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A sparse matrix: the columns and values of row i are at `starts[i] : starts[i + 1]`."""

    starts: Longs
    columns: Ints
    values: tuple[Floats, ...] = ()

    @classmethod
    def of(cls, counts: Sequence[int], columns: Sequence[int], *values: npt.ArrayLike) -> Table:
        """Makes a table. `counts`: number of columns and values of each row."""
        starts = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(np.array(counts, dtype=np.int64), out=starts[1:])
        numbers = tuple(np.array(each, dtype=np.float32) for each in values)
        return cls(starts=starts, columns=np.array(columns, dtype=np.int32), values=numbers)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def by_column(self, width: int) -> Table:
        """Returns the transposed table; `width`: number of columns, including empty ones."""
        order = np.argsort(self.columns, kind="stable")
        starts = np.zeros(width + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.columns, minlength=width), out=starts[1:])
        return Table(starts=starts, columns=self.rows()[order], values=tuple(each[order] for each in self.values))

    def rows(self) -> Ints:
        """Returns the row of every entry."""
        return np.arange(len(self), dtype=np.int32).repeat(np.diff(self.starts))

    def gathered(self, rows: Longs) -> tuple[Longs, Longs]:
        """Returns the indexes of the entries of some rows, one row after the other, and the count of each row."""
        starts = self.starts[rows]
        counts = self.starts[rows + 1] - starts
        ends = counts.cumsum()
        where = (starts - ends + counts).repeat(counts)
        where += np.arange(len(where))
        return where, counts

    def of_rows(self, rows: Longs) -> Table:
        """Returns only these rows, in this order."""
        where, counts = self.gathered(rows)
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        counts.cumsum(out=starts[1:])
        return Table(starts=starts, columns=self.columns[where], values=tuple(each[where] for each in self.values))

    def above(self, below: Table) -> Table:
        """Returns these rows followed by the rows of another table."""
        values = tuple(np.concatenate(pair) for pair in zip(self.values, below.values, strict=True))
        return Table(
            starts=np.concatenate([self.starts, below.starts[1:] + self.starts[-1]]),
            columns=np.concatenate([self.columns, below.columns]),
            values=values,
        )

    def totals(self, worth: Floats, value: int, *, squared: bool = False) -> Floats:
        """Returns for each row the sum of its values times the worth of their columns, or of the squares of these products."""
        sums = np.zeros(len(self), dtype=np.float32)
        some = np.flatnonzero(np.diff(self.starts))
        for first in range(0, len(some), _BLOCK):  # a block at a time stays in the processor's cache
            rows = some[first : first + _BLOCK]
            begin, end = self.starts[rows[0]], self.starts[rows[-1] + 1]
            weighed = worth.take(self.columns[begin:end], mode="clip")  # clip: skips the bounds check
            weighed *= self.values[value][begin:end]
            if squared:
                weighed *= weighed
            sums[rows] = np.add.reduceat(weighed, self.starts[rows] - begin)
        return sums

    def counted(self, rows: Bools | None, width: int) -> Longs:
        """Returns, for each column, the number of these rows that have it; None: of all rows."""
        columns = self.columns if rows is None else self.columns[rows.repeat(np.diff(self.starts))]
        return np.bincount(columns, minlength=width)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InvertedTable:
    """Rows that are looked up by their columns: an inverted index.

    Most rows are `early`: they are stored by row and by column, so that a query reads only its own columns. Rows added later are
    stored by row alone: they are few, each query reads them all, and adding one copies no other row. Tables never change, so
    that two of them can share parts.
    """

    width: int
    """Number of columns, including empty ones."""
    early: Table
    by_column: Table
    late: Table

    @classmethod
    def of(cls, rows: Table, width: int) -> InvertedTable:
        empty = Table(
            starts=np.zeros(1, dtype=np.int64), columns=rows.columns[:0], values=tuple(v[:0] for v in rows.values)
        )
        return cls(width=width, early=rows, by_column=rows.by_column(width), late=empty)

    def __len__(self) -> int:
        return len(self.early) + len(self.late)

    def joined(self, rows: Table, width: int) -> InvertedTable:
        """Returns a table with more rows, and with columns up to `width`."""
        starts = self.by_column.starts
        padded = np.concatenate([starts, starts[-1:].repeat(width + 1 - len(starts))])
        return replace(self, width=width, by_column=replace(self.by_column, starts=padded), late=self.late.above(rows))

    def only(self, rows: Longs, columns: Longs, width: int) -> InvertedTable:
        """Returns these rows alone, all of them early; column c becomes `columns[c]`."""
        table = self.early.above(self.late).of_rows(rows)
        return InvertedTable.of(replace(table, columns=columns[table.columns].astype(np.int32)), width)

    def summed(self, worth: Floats, value: int = 0) -> Floats:
        """Returns for each row the sum of its values times the worth of their columns; fast if most columns are worth 0."""
        columns = worth.nonzero()[0]
        where, counts = self.by_column.gathered(columns)
        weighed = self.by_column.values[value].take(where, mode="clip")
        weighed *= worth[columns].repeat(counts)
        sums = np.bincount(self.by_column.columns.take(where, mode="clip"), weighed, len(self.early))
        if len(self.late):
            weighed = self.late.values[value] * worth.take(self.late.columns, mode="clip")
            sums = np.concatenate([sums, np.bincount(self.late.rows(), weighed, len(self.late))])
        return sums.astype(np.float32)

    def shared(self, columns: Longs) -> Longs:
        """Returns, for each row, the number of these columns it has."""
        where, _ = self.by_column.gathered(columns)
        counts = np.bincount(self.by_column.columns.take(where, mode="clip"), minlength=len(self.early))
        if len(self.late):
            is_column = np.zeros(self.width, dtype=np.bool_)
            is_column[columns] = True
            hits = self.late.rows()[is_column[self.late.columns]]
            counts = np.concatenate([counts, np.bincount(hits, minlength=len(self.late))])
        return counts

    def totals(self, worth: Floats, value: int, *, squared: bool = False) -> Floats:
        """Returns the same as `summed`; fast if few columns are worth 0. `squared`: the sum of squares."""
        early = self.early.totals(worth, value, squared=squared)
        late = self.late.totals(worth, value, squared=squared)
        return np.concatenate([early, late]) if len(late) else early

    def counted(self, rows: Bools) -> Longs:
        """Returns, for each column, the number of these rows that have it."""
        split = len(self.early)
        early, late = self.early.counted(rows[:split], self.width), self.late.counted(rows[split:], self.width)
        return early + late

    def sizes(self) -> Longs:
        """Returns the number of columns of each row."""
        return np.concatenate([np.diff(self.early.starts), np.diff(self.late.starts)])

    def entries(self, rows: Longs) -> Table:
        """Returns the entries of some rows, in the order of `rows`."""
        split = len(self.early)
        if not len(self.late) or rows.max(initial=0) < split:
            return self.early.of_rows(rows)
        is_late = rows >= split
        parts = self.early.of_rows(rows[~is_late]).above(self.late.of_rows(rows[is_late] - split))
        order = np.empty(len(rows), dtype=np.int64)
        order[np.concatenate([np.flatnonzero(~is_late), np.flatnonzero(is_late)])] = np.arange(len(rows))
        return parts.of_rows(order)
