"""The index of the memory of one bot: which chunks there are, the words in them, and their vectors. One thread uses it at a time.

New chunks make a small segment; segments of similar size are joined. So a changed file costs the time of its own chunks, and a
search reads few segments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolcaddie.selection.query import language_of, split_words, stems_in
from toolcaddie.selection.rankers.characters import Spelling
from toolcaddie.selection.stopwords import STOP_WORDS
from toolcaddie.selection.word_table import word_table
from toolcaddie.tools.memory.segment import Bools, Floats, Ints, Segment
from toolcaddie.tools.memory.values import Chunk, Label
from toolcaddie.tools.memory.visibility import Reader
from toolcaddie.util.bounded import Bounded

_WAITING = 2_000
"""The number of new chunks that become a segment at once."""
_RATIO = 2
"""A segment is joined with the one before if that is at most so many times as large."""
_READERS = 64
"""The largest number of readers whose visible labels are remembered."""


def words_of(text: str) -> list[tuple[str, str]]:
    """Returns the content words of a text, each with its stem."""
    words = split_words(text)
    language = language_of(words) or "english"
    content = [word for word in words if word not in STOP_WORDS[language]]
    return list(zip(content, stems_in(content, language), strict=True))


class MemoryIndex:
    """Chunks of all files and chats of a bot."""

    def __init__(self) -> None:
        self.vocabulary: dict[str, int] = {}
        self.labels: list[Label] = []
        self.segments: list[Segment] = []
        self._label_numbers: dict[Label, int] = {}
        self._waiting: list[Chunk] = []
        self._places: dict[str, int] = {}
        """The number of chunks of each path."""
        self._spelling: Spelling | None = None
        self._sees: Bounded[tuple[Reader, int], Bools] = Bounded(_READERS)

    def __len__(self) -> int:
        return sum(self._places.values())

    @property
    def size(self) -> int:
        """Bytes in memory, about."""
        words = 120 * len(self.vocabulary)
        return words + sum(segment.size for segment in self.segments) + sum(len(each.text) for each in self._waiting)

    def add(self, chunks: Sequence[Chunk]) -> None:
        """Adds chunks."""
        for chunk in chunks:
            self._places[chunk.path] = self._places.get(chunk.path, 0) + 1
        self._waiting.extend(chunks)
        if len(self._waiting) >= _WAITING:
            self.settle()

    def remove(self, path: str, *, first: int = 0) -> None:
        """Removes the chunks of a path that begin at line `first` or later."""
        if path not in self._places:
            return
        self.settle()
        for segment in self.segments:
            for row, chunk in enumerate(segment.chunks):
                if chunk.path == path and chunk.first >= first and segment.alive[row]:
                    segment.alive[row] = False
                    self._places[path] -= 1
        if not self._places[path]:
            del self._places[path]

    def settle(self) -> None:
        """Makes a segment of the chunks that were added, and joins segments."""
        if self._waiting:
            words = [[self._number(stem) for _, stem in words_of(chunk.text)] for chunk in self._waiting]
            labels = [self._label_number(chunk.label) for chunk in self._waiting]
            table = word_table().embed([chunk.text for chunk in self._waiting])
            self.segments.append(Segment.of(self._waiting, labels, words, table))
            self._waiting = []
        while len(self.segments) > 1 and len(self.segments[-2]) <= _RATIO * len(self.segments[-1]):
            other, one = self.segments.pop(), self.segments.pop()
            self.segments.append(Segment.joined(one, other))

    def visible(self, reader: Reader) -> Bools:
        """Returns a flag for each chunk that a reader may see."""
        key = (reader, len(self.labels))
        sees = self._sees.get(key)
        if sees is None:
            sees = np.array([reader.sees(label) for label in self.labels], dtype=np.bool_)
            self._sees.put(key, sees)
        parts = [sees[segment.labels] & segment.alive for segment in self.segments]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.bool_)

    def lengths(self) -> Floats:
        """Returns the number of words of each chunk."""
        return np.concatenate([segment.lengths for segment in self.segments])

    def embedded(self) -> Bools:
        """Returns a flag for each chunk that has a vector of the embedder."""
        parts = [np.zeros(len(segment), dtype=np.bool_) for segment in self.segments]
        for flags, segment in zip(parts, self.segments, strict=True):
            flags[list(segment.deep)] = True
        return np.concatenate(parts)

    def having(self, term: int) -> tuple[Ints, Floats]:
        """Returns the chunks that have a word, in order, and how often each has it."""
        rows, counts, start = [], [], 0
        for segment in self.segments:
            some, numbers = segment.having(term)
            rows.append(some + start)
            counts.append(numbers)
            start += len(segment)
        return np.concatenate(rows), np.concatenate(counts)

    def chunk(self, row: int) -> Chunk:
        """Returns a chunk by its number."""
        for segment in self.segments:
            if row < len(segment):
                return segment.chunks[row]
            row -= len(segment)
        raise IndexError(row)

    def spelling(self) -> Spelling:
        """Returns the words of the vocabulary by their spelling."""
        known = len(self._spelling.words) if self._spelling is not None else 0
        if self._spelling is None or known < len(self.vocabulary) * 0.8:
            self._spelling = Spelling.of(dict(self.vocabulary))
        elif known < len(self.vocabulary):
            self._spelling = self._spelling.grown(dict(self.vocabulary))
        return self._spelling

    def without_vectors(self, most: int) -> list[tuple[Segment, int]]:
        """Returns chunks that have no vector of the embedder yet, the newest first."""
        places: list[tuple[Segment, int]] = []
        for segment in reversed(self.segments):
            if len(segment.deep) == len(segment):
                continue
            for row in range(len(segment) - 1, -1, -1):
                if len(places) == most:
                    return places
                if segment.alive[row] and row not in segment.deep:
                    places.append((segment, row))
        return places

    def _number(self, stem: str) -> int:
        return self.vocabulary.setdefault(stem, len(self.vocabulary))

    def _label_number(self, label: Label) -> int:
        number = self._label_numbers.setdefault(label, len(self.labels))
        if number == len(self.labels):
            self.labels.append(label)
        return number
