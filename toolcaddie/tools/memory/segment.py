"""A part of the index of a bot's memory: some chunks with their words, as an inverted table, and their vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from toolcaddie.selection.query import language_of, split_words, stems_of
from toolcaddie.selection.word_table import word_table
from toolcaddie.tools.memory.values import Chunk

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Segment(Struct, frozen=True, kw_only=True, eq=False):
    """Chunks that were indexed together. Row i of each array belongs to chunk i."""

    chunks: tuple[Chunk, ...]
    stamps: Longs
    """The number under which the index knows each chunk."""
    labels: Ints
    """The number of each chunk's label."""
    lengths: Floats
    """Words of each chunk."""
    starts: Longs
    """The entries of term t are at `starts[t] : starts[t + 1]`. Terms that came later have none."""
    rows: Ints
    """Row of each entry."""
    counts: npt.NDArray[np.uint8]
    """How often the term of each entry occurs in its chunk, up to 255."""
    vectors: Floats
    """Vectors by the word table, of length 1 or all zeros; stored by column, which halves the time of a product."""

    @classmethod
    def of(cls, chunks: Sequence[Chunk], stamps: Longs, labels: Ints, vocabulary: dict[str, int]) -> Segment:
        """Returns the segment of some chunks. New terms are added to the vocabulary."""
        counters = [Counter(_stems(chunk.text)) for chunk in chunks]
        sizes = np.array([len(counter) for counter in counters], dtype=np.int64)
        columns = [vocabulary.setdefault(term, len(vocabulary)) for counter in counters for term in counter]
        counts = [min(255, count) for counter in counters for count in counter.values()]
        rows = np.arange(len(chunks), dtype=np.int32).repeat(sizes)
        starts, order = _by_column(np.array(columns, dtype=np.int64), len(vocabulary))
        return cls(
            chunks=tuple(chunks),
            stamps=stamps,
            labels=labels,
            lengths=np.array([counter.total() for counter in counters], dtype=np.float32),
            starts=starts,
            rows=rows[order],
            counts=np.array(counts, dtype=np.uint8)[order],
            vectors=np.asfortranarray(word_table().embed([chunk.text for chunk in chunks])),
        )

    def __len__(self) -> int:
        return len(self.chunks)

    def entries(self, term: int) -> tuple[Ints, npt.NDArray[np.uint8]]:
        """Returns the rows with a term, in order, and its counts in them."""
        if term + 1 >= len(self.starts):
            return self.rows[:0], self.counts[:0]
        part = slice(self.starts[term], self.starts[term + 1])
        return self.rows[part], self.counts[part]

    @property
    def bytes(self) -> int:
        """Memory that it takes, about."""
        arrays = (self.stamps, self.labels, self.lengths, self.starts, self.rows, self.counts, self.vectors)
        return sum(array.nbytes for array in arrays) + sum(len(chunk.text) + 200 for chunk in self.chunks)


def merged(segments: Sequence[Segment], kept: Sequence[Bools]) -> Segment:
    """Returns one segment in place of several, with only the rows that have a flag."""
    width = max(len(segment.starts) for segment in segments) - 1
    columns, rows, counts, base = [], [], [], 0
    for segment, flags in zip(segments, kept, strict=True):
        numbers = np.cumsum(flags, dtype=np.int32) - 1 + np.int32(base)
        has = flags[segment.rows]
        terms = np.arange(len(segment.starts) - 1).repeat(np.diff(segment.starts))
        columns.append(terms[has])
        rows.append(numbers[segment.rows[has]])
        counts.append(segment.counts[has])
        base += int(flags.sum())
    starts, order = _by_column(np.concatenate(columns), width)
    pairs = list(zip(segments, kept, strict=True))
    return Segment(
        chunks=tuple(
            chunk for segment, flags in pairs for chunk, keep in zip(segment.chunks, flags, strict=True) if keep
        ),
        stamps=np.concatenate([segment.stamps[flags] for segment, flags in pairs]),
        labels=np.concatenate([segment.labels[flags] for segment, flags in pairs]),
        lengths=np.concatenate([segment.lengths[flags] for segment, flags in pairs]),
        starts=starts,
        rows=np.concatenate(rows)[order],
        counts=np.concatenate(counts)[order],
        vectors=np.asfortranarray(np.concatenate([segment.vectors[flags] for segment, flags in pairs])),
    )


def _by_column(columns: Longs, width: int) -> tuple[Longs, Longs]:
    """Returns the start of each column, and the order that brings entries to their columns and leaves them sorted by row."""
    starts = np.zeros(width + 1, dtype=np.int64)
    np.cumsum(np.bincount(columns, minlength=width), out=starts[1:])
    return starts, np.argsort(columns, kind="stable")


def _stems(text: str) -> list[str]:
    """Returns the stem of every word of a text, in the language of the text; English if that is unclear."""
    words = split_words(text)
    each = dict.fromkeys(words)
    language = language_of(words) or "english"
    stem_of = {word: stems[0] for word, stems in zip(each, stems_of(list(each), [language]), strict=True)}
    return [stem_of[word] for word in words]
