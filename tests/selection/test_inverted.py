from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from toolcaddie.selection.index.inverted import InvertedTable, Table

Floats = npt.NDArray[np.float32]

WIDTH = 40


def matrix(rows: int, *, seed: int) -> Floats:
    """The first columns have an entry in most rows, the last ones in few, as words have."""
    random = np.random.default_rng(seed)
    entered = random.random((rows, WIDTH)) < np.geomspace(0.9, 0.01, WIDTH)
    return np.where(entered, random.random((rows, WIDTH)) + 0.5, 0.0).astype(np.float32)


def table(dense: Floats) -> Table:
    owners, columns = dense.nonzero()
    return Table.of(np.bincount(owners, minlength=len(dense)).tolist(), columns.tolist(), dense[owners, columns])


def sums(dense: Floats, columns: list[int], worths: list[float]) -> Floats:
    return np.asarray(dense[:, columns] @ np.array(worths, dtype=np.float32))


def summed(inverted: InvertedTable, columns: list[int], worths: list[float]) -> Floats:
    return inverted.summed(np.array(columns, dtype=np.int64), np.array(worths, dtype=np.float32))


@pytest.mark.parametrize("rows", [20, 3_000])
@pytest.mark.parametrize("columns", [[0, 1, 30], [0, 0, 2], [35, 38], []])
def test_a_row_has_the_sum_over_frequent_and_rare_columns(rows: int, columns: list[int]) -> None:
    dense = matrix(rows, seed=1)
    worths = [0.5, 2.0, 3.0][: len(columns)]
    inverted = InvertedTable.of(table(dense), WIDTH)
    assert summed(inverted, columns, worths) == pytest.approx(sums(dense, columns, worths), rel=1e-5)


def test_a_row_without_an_entry_has_exactly_nothing() -> None:
    dense = matrix(3_000, seed=2)
    found = summed(InvertedTable.of(table(dense), WIDTH), [0, 30], [1.0, 1.0])
    assert ((found == 0) == (dense[:, [0, 30]] == 0).all(axis=1)).all()


def test_rows_and_columns_that_come_later_are_summed_too() -> None:
    early, late = matrix(3_000, seed=3), matrix(30, seed=4)
    wide = np.concatenate([late, np.ones((30, 1), dtype=np.float32)], axis=1)
    inverted = InvertedTable.of(table(early), WIDTH).joined(table(wide), WIDTH + 1)
    both = np.concatenate([np.pad(early, ((0, 0), (0, 1))), wide])
    assert summed(inverted, [0, 30, WIDTH], [0.5, 1.0, 2.0]) == pytest.approx(
        sums(both, [0, 30, WIDTH], [0.5, 1.0, 2.0]), rel=1e-5
    )
