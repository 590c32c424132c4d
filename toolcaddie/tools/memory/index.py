"""The searchable chunks of one bot. All methods that take long are meant for the thread of `guards.aside`, which runs one at a
time, so they need no lock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np

from toolcaddie.selection.query import content_words, split_words, stems_of
from toolcaddie.selection.rankers.characters import Spelling
from toolcaddie.selection.stopwords import LANGUAGES
from toolcaddie.selection.word_table import word_table
from toolcaddie.tools.memory.scoring import WORDS, QueryWord, WordScores, joined, nearness, word_scores
from toolcaddie.tools.memory.segment import Bools, Floats, Segment, merged
from toolcaddie.tools.memory.values import Chunk, Label, Match

MOST_QUERY = 2_000
"""The number of characters of a query that are read."""
_MOST_WORDS = 64
"""The largest number of different words of a query."""
_RATIO = 4
"""A segment that is less than so many times larger than the next one is merged with it."""
_MOST_DEAD = 0.5
"""Share of removed chunks from which all segments are merged without them."""
_ALIKE_LOOKED_AT = 64


class ChunkIndex:
    """Chunks in segments. A change adds a segment, and small ones are merged, so that few remain and adding stays cheap."""

    def __init__(self) -> None:
        self._vocabulary: dict[str, int] = {}
        self._spelling: Spelling | None = None
        self._labels: dict[Label, int] = {}
        self._segments: list[Segment] = []
        self._alive: list[Bools] = []
        self._next = 0

    def __len__(self) -> int:
        """The number of chunks."""
        return sum(int(alive.sum()) for alive in self._alive)

    @property
    def bytes(self) -> int:
        """Memory that it takes, about."""
        return sum(segment.bytes for segment in self._segments) + 100 * len(self._vocabulary)

    def chunks(self, stamps: Sequence[int]) -> list[Chunk]:
        """Returns the chunks with these stamps, in their order."""
        wanted = set(stamps)
        held = {
            stamp: chunk
            for segment in self._segments
            for stamp, chunk in zip(segment.stamps.tolist(), segment.chunks, strict=True)
            if stamp in wanted
        }
        return [held[stamp] for stamp in stamps]

    def change(self, removed: Collection[int], added: Sequence[Chunk]) -> tuple[int, ...]:
        """Removes the chunks with these stamps and adds others. Returns the stamps of the new ones."""
        if removed:
            gone = np.fromiter(removed, dtype=np.int64)
            pairs = zip(self._segments, self._alive, strict=True)
            self._alive = [alive & ~np.isin(segment.stamps, gone) for segment, alive in pairs]
        stamps = np.arange(self._next, self._next + len(added), dtype=np.int64)
        self._next += len(added)
        if added:
            numbers = [self._labels.setdefault(chunk.label, len(self._labels)) for chunk in added]
            self._segments.append(Segment.of(added, stamps, np.array(numbers, dtype=np.int32), self._vocabulary))
            self._alive.append(np.ones(len(added), dtype=np.bool_))
        self._tidy()
        return tuple(stamps.tolist())

    def search(self, query: str, sees: Callable[[Label], bool], *, most: int, least: float) -> list[Match]:
        """Returns the chunks that fit a query, the best first: at most `most`, with a score of at least `least`."""
        visible = np.array([sees(label) for label in self._labels], dtype=np.bool_)
        pairs = zip(self._segments, self._alive, strict=True)
        masks = [visible[segment.labels] & alive for segment, alive in pairs]
        by_words = word_scores(self._words(query), self._segments, masks)
        vector = word_table().embed_requests([query[:MOST_QUERY]])[0]
        near = nearness(vector, [each.vectors for each in self._segments], masks)
        scores = joined(by_words, near, WORDS)
        best = sorted(
            (
                (float(each[row]), number, row)
                for number, each in enumerate(scores)
                for row in _top(each, most)
                if each[row] > 0 and each[row] >= least
            ),
            key=lambda place: (-place[0], -self._segments[place[1]].chunks[place[2]].at),
        )
        return [self._match(number, row, score, by_words, near) for score, number, row in best[:most]]

    def _words(self, query: str) -> list[QueryWord]:
        words = list(dict.fromkeys(split_words(query[:MOST_QUERY])))[:_MOST_WORDS]
        content = set(content_words(query[:MOST_QUERY], "english"))
        table = word_table()
        return [
            QueryWord(
                word=word,
                weight=table.share(word),
                terms=tuple(number for stem in stems if (number := self._vocabulary.get(stem)) is not None),
                alike=partial(self._alike, word) if word in content else tuple,
            )
            for word, stems in zip(words, stems_of(words, LANGUAGES), strict=True)
        ]

    def _alike(self, word: str) -> list[tuple[int, str, float]]:
        """Returns the terms of the vocabulary that are spelled like a word."""
        if not self._vocabulary:
            return []
        if self._spelling is None:
            self._spelling = Spelling.of(dict(self._vocabulary))
        elif len(self._spelling.words) < len(self._vocabulary):
            self._spelling = self._spelling.grown(dict(self._vocabulary))
        spelling = self._spelling
        alike = spelling.alike(word, ("",), True)  # no stem: a term that is the word itself counts as spelled like it
        ids, likeness = alike.ids[:_ALIKE_LOOKED_AT].tolist(), alike.likeness[:_ALIKE_LOOKED_AT].tolist()
        return [
            (number, spelling.words[number], like)
            for number, like in zip(ids, likeness, strict=True)
            if like >= _LEAST_ALIKE
        ]

    def _match(self, number: int, row: int, score: float, by_words: WordScores, near: Sequence[Floats]) -> Match:
        words = dict.fromkeys(each.word for each in by_words.postings if row in each.rows[number][0])
        content = set(content_words(" ".join(words), "english"))
        return Match(
            chunk=self._segments[number].chunks[row],
            score=min(1.0, score),
            words=tuple(word for word in words if word in content),
            meaning=float(near[number][row]),
        )

    def _tidy(self) -> None:
        """Merges segments."""
        rows = sum(map(len, self._segments))
        if rows and len(self) < (1 - _MOST_DEAD) * rows:
            self._merge(0)
            return
        while len(self._segments) > 1 and len(self._segments[-2]) < _RATIO * len(self._segments[-1]):
            self._merge(len(self._segments) - 2)

    def _merge(self, first: int) -> None:
        """Makes one segment of those from `first` on."""
        whole = merged(self._segments[first:], self._alive[first:])
        self._segments[first:] = [whole] if len(whole) else []
        self._alive[first:] = [np.ones(len(whole), dtype=np.bool_)] if len(whole) else []


_LEAST_ALIKE = 0.3
"""The least likeness of a word that stands for one that no chunk has."""


def _top(scores: Floats, most: int) -> list[int]:
    """Returns the rows with the highest scores, in any order."""
    if len(scores) <= most:
        return list(range(len(scores)))
    top: list[int] = np.argpartition(scores, -most)[-most:].tolist()
    return top
