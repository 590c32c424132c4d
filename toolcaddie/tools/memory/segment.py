"""A part of the index of a bot's memory: chunks, the words in them, and their vectors. Parts only lose chunks, or are joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from toolcaddie.tools.memory.values import Chunk

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_NO_ROWS = (np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))


class Segment:
    """Chunks in rows. `terms` has the numbers of the words in them, in order; those of word `i` are in the rows
    `rows[starts[i] : starts[i + 1]]`."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        labels: Ints,
        lengths: Floats,
        entries: tuple[Ints, Ints, Floats],
        table: Floats,
        deep: dict[int, Floats],
    ) -> None:
        """`labels`: the number of each chunk's label. `entries`: word, row and count of each word of each chunk. `table`: the
        vectors by the word table. `deep`: those of the embedder, of the chunks that have one."""
        self.chunks = chunks
        self.labels = labels
        self.lengths = lengths
        self.table = table
        self.deep = deep
        self.alive: Bools = np.ones(len(chunks), dtype=np.bool_)
        words, rows, counts = entries
        order = np.argsort(words, kind="stable")
        self.terms, firsts = np.unique(words[order], return_index=True)
        self.starts: Longs = np.append(firsts, len(words)).astype(np.int64)
        self.rows, self.counts = rows[order], counts[order]
        self._matrix: tuple[int, Floats] | None = None

    def __len__(self) -> int:
        return len(self.chunks)

    @classmethod
    def of(
        cls, chunks: Sequence[Chunk], labels: Sequence[int], words: Sequence[Sequence[int]], table: Floats
    ) -> Segment:
        """Returns the segment of some chunks. `words`: the numbers of the words of each chunk."""
        counted = [Counter(each) for each in words]
        sizes = [len(each) for each in counted]
        terms = np.fromiter((term for each in counted for term in each), dtype=np.int32, count=sum(sizes))
        counts = np.fromiter((count for each in counted for count in each.values()), dtype=np.float32, count=sum(sizes))
        rows = np.arange(len(chunks), dtype=np.int32).repeat(sizes)
        lengths = np.array([len(each) for each in words], dtype=np.float32)
        return cls(chunks, np.array(labels, dtype=np.int32), lengths, (terms, rows, counts), table, {})

    @classmethod
    def joined(cls, one: Segment, other: Segment) -> Segment:
        """Returns both together, without the chunks that are gone."""
        parts = [one._living(0), other._living(int(one.alive.sum()))]
        pairs = [(one, 0), (other, int(one.alive.sum()))]
        deep = {
            int(place): segment.deep[row]
            for segment, start in pairs
            for place, row in enumerate(np.flatnonzero(segment.alive).tolist(), start)
            if row in segment.deep
        }
        return cls(
            [chunk for part in (one, other) for chunk, alive in zip(part.chunks, part.alive, strict=True) if alive],
            np.concatenate([one.labels[one.alive], other.labels[other.alive]]),
            np.concatenate([one.lengths[one.alive], other.lengths[other.alive]]),
            (
                np.concatenate([part[0] for part in parts]),
                np.concatenate([part[1] for part in parts]),
                np.concatenate([part[2] for part in parts]),
            ),
            np.concatenate([one.table[one.alive], other.table[other.alive]]),
            deep,
        )

    def having(self, term: int) -> tuple[Ints, Floats]:
        """Returns the rows that have a word, in order, and how often each has it."""
        place = int(np.searchsorted(self.terms, term))
        if place == len(self.terms) or self.terms[place] != term:
            return _NO_ROWS
        part = slice(self.starts[place], self.starts[place + 1])
        return self.rows[part], self.counts[part]

    def matrix(self, dimensions: int) -> Floats:
        """Returns the vectors of the embedder, a row for each chunk, zeros where one is missing."""
        if self._matrix is None or self._matrix[0] != len(self.deep) or self._matrix[1].shape[1] != dimensions:
            rows: Floats = np.zeros((len(self), dimensions), dtype=np.float32)
            for row, vector in self.deep.items():
                if len(vector) == dimensions:
                    rows[row] = vector
            self._matrix = (len(self.deep), rows)
        return self._matrix[1]

    @property
    def size(self) -> int:
        """Bytes in memory, about."""
        arrays = (self.labels, self.lengths, self.table, self.rows, self.counts, self.terms, self.starts)
        texts = sum(len(chunk.text) + 400 for chunk in self.chunks)
        deep = sum(2 * vector.nbytes + 200 for vector in self.deep.values())
        return sum(array.nbytes for array in arrays) + texts + deep

    def _living(self, start: int) -> tuple[Ints, Ints, Floats]:
        """Returns word, row and count of the entries of the chunks that are not gone. `start`: number of the first row."""
        keeps = self.alive[self.rows]
        words = self.terms.repeat(np.diff(self.starts)).astype(np.int32)
        numbers = (np.cumsum(self.alive) - 1 + start).astype(np.int32)
        return words[keeps], numbers[self.rows[keeps]], self.counts[keeps]
