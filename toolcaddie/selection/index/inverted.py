"""Sparse matrices to which rows can be added. `postings` stores the terms of tools in them (a row for each tool), and the ranker
`characters` the n-grams of words (a row for each word).

A query gives each column a worth, mostly 0, and gets a sum for each row.
"""

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

_LONG = 100
"""The mean length of rows from which copying them one by one is faster than indexing all their entries."""
_BLOCK = 4_096
"""The number of rows that are summed at once."""
_FREQUENT = 1 / 4
"""Share of the rows with an entry in a column from which the column is stored whole too."""
_LEAST_ROWS = 1_024
"""The least number of rows for this; with fewer, it saves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A sparse matrix. The entries of row i are at `starts[i] : starts[i + 1]` in `columns` and in each array of `values`."""

    starts: Longs
    columns: Ints | Longs
    """Column of each entry. 64-bit in a transposed table, because `bincount` would convert them in each query."""
    values: tuple[Floats, ...] = ()
    """Arrays with a value for each entry. There may be several, such as two weights of a term; a method's `value` is the index of
    the one to use."""

    @classmethod
    def of(cls, counts: Sequence[int], columns: Sequence[int], *values: npt.ArrayLike) -> Table:
        """Makes a table. `counts`: the number of entries of each row."""
        starts = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(np.array(counts, dtype=np.int64), out=starts[1:])
        numbers = tuple(np.array(each, dtype=np.float32) for each in values)
        return cls(starts=starts, columns=np.array(columns, dtype=np.int32), values=numbers)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def by_column(self, width: int) -> Table:
        """Returns the transposed table. `width`: the number of columns, including empty ones."""
        order = np.argsort(self.columns, kind="stable")
        starts = np.zeros(width + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.columns, minlength=width), out=starts[1:])
        rows = self.rows()[order].astype(np.int64)
        return Table(starts=starts, columns=rows, values=tuple(each[order] for each in self.values))

    def rows(self) -> Ints:
        """Returns the row of every entry."""
        return np.arange(len(self), dtype=np.int32).repeat(np.diff(self.starts))

    def gathered(self, rows: Longs) -> tuple[Longs, Longs]:
        """Returns the indexes of the entries of some rows, one row after the other, and the number of entries of each row."""
        starts = self.starts[rows]
        counts = self.starts[rows + 1] - starts
        ends = counts.cumsum()
        where = (starts - ends + counts).repeat(counts)
        where += np.arange(len(where))
        return where, counts

    def picked(self, rows: Longs, value: int) -> tuple[Ints | Longs, Floats, Longs]:
        """Returns the columns and one value of all entries of some rows, one row after the other, and the number of entries of
        each row."""
        starts = self.starts[rows]
        counts = self.starts[rows + 1] - starts
        columns, values = self.columns, self.values[value]
        if counts.sum() < _LONG * len(rows) or not len(rows):
            where, _ = self.gathered(rows)
            return columns.take(where, mode="clip"), values.take(where, mode="clip"), counts
        parts = list(map(slice, starts.tolist(), (starts + counts).tolist()))
        return (
            np.concatenate([columns[part] for part in parts]),
            np.concatenate([values[part] for part in parts]),
            counts,
        )

    def columns_of(self, rows: Longs) -> Ints | Longs:
        """Returns the columns of all entries of some rows."""
        if not len(rows):
            return self.columns[:0]
        columns, parts = self.columns, map(slice, self.starts[rows].tolist(), self.starts[rows + 1].tolist())
        return np.concatenate([columns[part] for part in parts])

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
        """Returns for each row the sum over its entries of value times the worth of the column; with `squared`, the sum of the
        squares of these products."""
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

    def weighed(self, worths: Doubles, value: int, *, squared: bool = False) -> Doubles:
        """Returns for each row of `worths`, which has a worth for each column, and for each row of the table the sum over its
        entries of value times worth; with `squared`, of the squared value times worth. Float64."""
        values = self.values[value].astype(np.float64)
        values = values * values if squared else values
        rows = self.rows()
        return np.stack([np.bincount(rows, values * each[self.columns], len(self)) for each in worths])

    def counted(self, rows: Bools | None, width: int) -> Longs:
        """Returns for each column the number of rows with an entry in it. `rows` has a flag for each row that counts; None:
        all."""
        columns = self.columns if rows is None else self.columns[rows.repeat(np.diff(self.starts))]
        return np.bincount(columns, minlength=width)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrequentColumns:
    """The columns with an entry in many rows, such as that of the word "the", as arrays with a value for each row. Most entries
    that a request needs are in them, and adding such an array takes a tenth of the time of adding its entries."""

    places: Longs
    """Index of each column in the arrays; -1 if it is not among them. The last element stands for columns that were added
    later."""
    values: tuple[Floats, ...]
    """[columns, rows] for each value of an entry; 0 where there is no entry."""

    @classmethod
    def of(cls, by_column: Table, rows: int) -> FrequentColumns | None:
        """Returns the frequent columns of a transposed table with this number of rows; None: storing them would save nothing."""
        frequent = np.flatnonzero(np.diff(by_column.starts) >= max(1, _FREQUENT * rows))
        if rows < _LEAST_ROWS or not by_column.values or not len(frequent):
            return None
        places = np.full(len(by_column) + 1, -1, dtype=np.int64)
        places[frequent] = np.arange(len(frequent))
        where, counts = by_column.gathered(frequent)
        values = tuple(np.zeros((len(frequent), rows), dtype=np.float32) for _ in by_column.values)
        for whole, entries in zip(values, by_column.values, strict=True):
            whole[np.arange(len(frequent)).repeat(counts), by_column.columns[where]] = entries[where]
        return cls(places=places, values=values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InvertedTable:
    """A sparse matrix whose rows are looked up by column: an inverted index. It never changes; adding rows makes another table,
    which shares arrays with this one.

    Early rows are those of the first construction. They are stored by row and by column, so that a query reads only the columns
    that it needs. Late rows were added later. They are stored by row only: a query reads all of them, which is fast as long as
    they are few, and adding one does not copy the early rows.
    """

    width: int
    """The number of columns, including empty ones."""
    early: Table
    """The early rows, by row."""
    by_column: Table
    """The early rows, by column."""
    late: Table
    """The late rows, by row."""
    frequent: FrequentColumns | None
    """The columns with an entry in many early rows; None: there are none, or few rows."""

    @classmethod
    def of(cls, rows: Table, width: int) -> InvertedTable:
        empty = Table(
            starts=np.zeros(1, dtype=np.int64), columns=rows.columns[:0], values=tuple(v[:0] for v in rows.values)
        )
        by_column = rows.by_column(width)
        frequent = FrequentColumns.of(by_column, len(rows))
        return cls(width=width, early=rows, by_column=by_column, late=empty, frequent=frequent)

    def __len__(self) -> int:
        return len(self.early) + len(self.late)

    def joined(self, rows: Table, width: int) -> InvertedTable:
        """Returns a table with more rows, and with columns up to `width`."""
        starts = self.by_column.starts
        padded = np.concatenate([starts, starts[-1:].repeat(width + 1 - len(starts))])
        return replace(self, width=width, by_column=replace(self.by_column, starts=padded), late=self.late.above(rows))

    def only(self, rows: Longs, columns: Longs, width: int) -> InvertedTable:
        """Returns a new table of these rows only, all of them early. Column c gets the number `columns[c]`."""
        table = self.early.above(self.late).of_rows(rows)
        return InvertedTable.of(replace(table, columns=columns[table.columns].astype(np.int32)), width)

    def summed(self, columns: Longs, worths: Floats, value: int = 0) -> Floats:
        """Returns for each row the sum over its entries in these columns of value times the worth of the column. The worths of a
        column that is named twice add up. Fast if the columns are few; otherwise use `totals`."""
        sums = self._early_sums(columns, worths, value)
        if len(self.late):
            worth = np.bincount(columns, worths, self.width).astype(np.float32)
            values = self.late.values[value] * worth.take(self.late.columns, mode="clip")
            sums = np.concatenate([sums, np.bincount(self.late.rows(), values, len(self.late))])
        return sums.astype(np.float32)

    def _early_sums(self, columns: Longs, worths: Floats, value: int) -> Doubles:
        """Returns the sum for each early row."""
        more: Floats | None = None
        if self.frequent is not None:
            places = self.frequent.places.take(columns, mode="clip")
            whole = places >= 0
            if whole.any():
                more = worths[whole] @ self.frequent.values[value][places[whole]]
                columns, worths = columns[~whole], worths[~whole]
        rows, values, counts = self.by_column.picked(columns, value)
        values *= worths.repeat(counts)
        sums: Doubles = np.bincount(rows, values, len(self.early)).astype(np.float64, copy=False)
        if more is not None:
            sums += more
        return sums

    def shared(self, columns: Longs) -> Longs:
        """Returns for each row the number of these columns in which it has an entry."""
        counts = np.bincount(self.by_column.columns_of(columns), minlength=len(self.early))
        if len(self.late):
            is_column = np.zeros(self.width, dtype=np.bool_)
            is_column[columns] = True
            hits = self.late.rows()[is_column[self.late.columns]]
            counts = np.concatenate([counts, np.bincount(hits, minlength=len(self.late))])
        return counts

    def totals(self, worth: Floats, value: int, *, squared: bool = False) -> Floats:
        """Returns the same sums as `summed`, or with `squared` the sums of the squared products. Fast if few columns have worth
        0."""
        early = self.early.totals(worth, value, squared=squared)
        late = self.late.totals(worth, value, squared=squared)
        return np.concatenate([early, late]) if len(late) else early

    def weighed(self, columns: Longs, worths: Doubles, value: int, *, squared: bool = False) -> Doubles:
        """Returns the same sums as `Table.weighed`, of these columns only, to which `worths` belong."""
        rows, numbers, counts = self.by_column.picked(columns, value)
        values = numbers.astype(np.float64) ** (2 if squared else 1)
        early: Doubles = np.stack([np.bincount(rows, values * each.repeat(counts), len(self.early)) for each in worths])
        if not len(self.late):
            return early
        all_worths = np.zeros((len(worths), self.width), dtype=np.float64)
        all_worths[:, columns] = worths
        return np.concatenate([early, self.late.weighed(all_worths, value, squared=squared)], axis=1)

    def counted(self, rows: Bools) -> Longs:
        """Returns for each column the number of rows with an entry in it. `rows` has a flag for each row that counts."""
        split = len(self.early)
        early, late = self.early.counted(rows[:split], self.width), self.late.counted(rows[split:], self.width)
        return early + late

    def sizes(self) -> Longs:
        """Returns the number of entries of each row."""
        return np.concatenate([np.diff(self.early.starts), np.diff(self.late.starts)])

    def columns_at(self, row: int) -> Ints | Longs:
        """Returns the columns of the entries of one row."""
        split = len(self.early)
        table, at = (self.early, row) if row < split else (self.late, row - split)
        return table.columns[table.starts[at] : table.starts[at + 1]]

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
