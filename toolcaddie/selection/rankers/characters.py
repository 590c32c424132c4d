"""Ranking by spelling: words that look alike, by the runs of 2 to 4 characters they share.

It finds what stemming does not: slips of the finger, compounds ("airquality" for "air quality"), endings of languages that
no stemmer here knows. Each word of the request stands for the catalog's words that resemble it, so only few postings are
touched; a bag of all n-grams of all texts finds the same tools and costs many times as much.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog, CatalogChange, Mask
from toolcaddie.ports import QueryWords, Ranker
from toolcaddie.selection.index.grid import Grid, Table
from toolcaddie.selection.index.postings import Postings, best_terms, postings_after, postings_of
from toolcaddie.selection.query import is_pair
from toolcaddie.selection.remembered import Remembered

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

ALIKE = 0.2
"""Cosine of two words' n-grams under which they have nothing in common."""
SHARPNESS = 1.5
"""Exponent of that cosine: half alike is worth less than half."""
MOST_ALIKE = 16
"""Words of the catalog that a word of the request may stand for."""

_SHORTEST, _LONGEST = 2, 4
_LONGEST_WORD = 40
_REMEMBERED = 4_096
_ROUNDING = 1e-9
_WORTH_SAYING = 0.35
_SHOWN = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Alike:
    """Terms of the vocabulary that a word may stand for, the most like it first, and how much each is like it, 0 to 1."""

    ids: Ints
    likeness: Floats

    def among(self, having: Ints | None) -> _Alike:
        """The first few of those that a visible tool has; None: all are visible."""
        if having is None and len(self.ids) <= MOST_ALIKE:
            return self
        seen = slice(MOST_ALIKE) if having is None else np.flatnonzero(having[self.ids])[:MOST_ALIKE]
        return _Alike(ids=self.ids[seen], likeness=self.likeness[seen])


_NOTHING = _Alike(ids=np.empty(0, dtype=np.int32), likeness=np.empty(0, dtype=np.float32))
"""What a stop word stands for where no other word is known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Answer:
    """For each term of the vocabulary how much it is like a word of the request, and which word that is."""

    likeness: Floats
    word: Ints
    said: tuple[str, ...]


class Spelling:
    """The terms of a vocabulary by their n-grams. It never changes but for what it remembers."""

    def __init__(
        self, vocabulary: Mapping[str, int], grams: dict[str, int], grid: Grid, alphabet: list[str], ranks: Longs
    ) -> None:
        self.words = tuple(vocabulary)
        self._vocabulary = vocabulary
        self._grams = grams
        self._grid = grid
        self._sizes = grid.sizes()
        self._least = np.maximum(ALIKE**2 * self._sizes - _ROUNDING, _ROUNDING)
        self._alphabet = alphabet
        self._ranks = ranks
        """Place of each word in the alphabet."""
        self.alike = lru_cache(maxsize=_REMEMBERED)(self._find_alike)

    @classmethod
    def of(cls, vocabulary: Mapping[str, int]) -> Spelling:
        grams: dict[str, int] = {}
        table = _table_of(vocabulary, grams)
        alphabet = sorted(vocabulary)
        ranks = np.empty(len(alphabet), dtype=np.int64)
        ranks[[vocabulary[word] for word in alphabet]] = np.arange(len(alphabet))
        return cls(vocabulary, grams, Grid.of(table, len(grams)), alphabet, ranks)

    def grown(self, vocabulary: Mapping[str, int]) -> Spelling:
        """That of a vocabulary which has the same words in their order, and more after them."""
        words = tuple(islice(vocabulary, len(self.words), None))
        grams = dict(self._grams)
        table = _table_of(words, grams)
        alphabet = list(self._alphabet)
        for word in words:
            insort(alphabet, word)
        new = np.array([bisect_left(alphabet, word) for word in words], dtype=np.int64)
        free = np.delete(np.arange(len(alphabet)), new)  # the old words in their order
        ranks = np.concatenate([free[self._ranks], new])
        return Spelling(vocabulary, grams, self._grid.joined(table, len(grams)), alphabet, ranks)

    def _find_alike(self, word: str, stems: tuple[str, ...], content: bool) -> _Alike:
        """The terms like a word and its own stems first; these alone of a stop word, which is no slip of the finger,
        and of a pair of Han or kana, which shares too little with any other."""
        own = np.array([self._vocabulary[stem] for stem in stems if stem in self._vocabulary], dtype=np.int32)
        same = np.full(len(own), 1 / len(stems), dtype=np.float32)
        if not content or len(word) > _LONGEST_WORD or is_pair(word):
            return _Alike(ids=own, likeness=same)
        grams = _grams(word)
        known = [number for gram in grams if (number := self._grams.get(gram)) is not None]
        shared = self._grid.shared(np.array(known, dtype=np.int64))
        shared[own] = 0
        others = (shared * shared >= len(grams) * self._least).nonzero()[0]
        cosine = shared[others] / np.sqrt(len(grams) * self._sizes[others])
        best = np.lexsort((self._ranks[others], -cosine))  # not by number, which hidden tools have a part in
        likeness = (cosine[best] ** SHARPNESS).astype(np.float32)
        ids = np.concatenate([own, others[best].astype(np.int32)])
        return _Alike(ids=ids, likeness=np.concatenate([same, likeness]))


class Characters:
    """Each tool by how many words like those of the request it has, for its length.

    The best tool has the part of the request that the catalog has like words for.
    """

    name = "characters"
    calibrated = True

    def __init__(self, postings: Postings, spelling: Spelling | None = None) -> None:
        self._postings = postings
        self._spelling = spelling or Spelling.of(postings.vocabulary)
        self._last = Remembered[_Answer]()

    def changed(self, change: CatalogChange) -> Ranker:
        postings = postings_after(change, self._postings)
        if postings.vocabulary is self._postings.vocabulary:
            return Characters(postings, self._spelling)
        known = len(self._spelling.words)
        if tuple(islice(postings.vocabulary, known)) != self._spelling.words:
            return Characters(postings)  # terms of tools that are gone were left out
        return Characters(postings, self._spelling.grown(postings.vocabulary))

    def scores(self, words: QueryWords, mask: Mask | None) -> Floats:
        postings = self._postings
        scope = postings.scope(mask)
        asked = postings.asked(words)
        terms = asked.reading.terms
        beside = postings.speaks(asked, scope)
        having = None if mask is None and not postings.forgotten else scope.having
        found = [
            self._spelling.alike(term.word, term.stems, term.content).among(having)
            if term.content or beside
            else _NOTHING
            for term in terms
        ]
        counts = np.array([len(each.ids) for each in found], dtype=np.int64)
        if not counts.sum():
            return np.zeros(postings.size, dtype=np.float32)
        ids = np.concatenate([each.ids for each in found])
        likeness = np.concatenate([each.likeness for each in found])
        said = asked.said
        self._remember(words, found, ids, likeness, counts)
        weights = said.repeat(counts) * likeness * np.square(scope.rarity[ids])
        scores = postings.summed(ids, weights, value=1) / scope.lengths
        if mask is not None:
            scores[~mask] = 0.0
        best = scores.max(initial=0.0)
        return scores * np.float32(_known(likeness, counts, said) / best) if best > 0 else scores

    def reasons(self, words: QueryWords, positions: Sequence[int]) -> Sequence[tuple[str, ...]]:
        """Words of each tool that are spelled like words of the request; those that are the same are not repeated here."""
        answer = self._last.of(words)
        if answer is None:
            return [()] * len(positions)
        shown = best_terms(self._postings.terms_of(positions), answer.likeness, _SHOWN, least=_WORTH_SAYING)
        return [self._told(answer, terms) for terms in shown]

    def _told(self, answer: _Answer, terms: Sequence[int]) -> tuple[str, ...]:
        pairs = [f"{self._spelling.words[term]} for {answer.said[answer.word[term]]}" for term in terms]
        return (f"spelled alike: {', '.join(pairs)}",) if pairs else ()

    def _remember(
        self, words: QueryWords, found: Sequence[_Alike], ids: Ints, likeness: Floats, counts: npt.NDArray[np.int64]
    ) -> None:
        dense = np.zeros(len(self._spelling.words), dtype=np.float32)
        word = np.zeros(len(self._spelling.words), dtype=np.int32)
        dense[ids] = likeness
        word[ids] = np.arange(len(found), dtype=np.int32).repeat(counts)
        asked = self._postings.asked(words)
        dense[asked.ids] = 0.0  # the same word is the other ranker's to tell
        terms = asked.reading.terms
        self._last.keep(words, _Answer(likeness=dense, word=word, said=tuple(term.word for term in terms)))


def factory(catalog: Catalog) -> Ranker:
    return Characters(postings_of(catalog))


def _known(likeness: Floats, counts: npt.NDArray[np.int64], said: Floats) -> float:
    """The part of the request that has like words, each word by its best."""
    some = counts > 0
    starts = (np.cumsum(counts) - counts)[some]
    best = np.maximum.reduceat(likeness, starts)
    return float((best * said[some]).sum() / said.sum())


def _grams(word: str) -> set[str]:
    """The runs of characters of a word, its ends being marked."""
    marked = f" {word} "
    return {
        marked[start : start + length]
        for length in range(_SHORTEST, _LONGEST + 1)
        for start in range(max(1, len(marked) - length + 1))
    }


def _table_of(words: Collection[str], grams: dict[str, int]) -> Table:
    """Which words have which n-gram. Fills `grams` with the number of each."""
    sizes: list[int] = []
    numbers: list[int] = []
    for word in words:
        own = _grams(word) if len(word) <= _LONGEST_WORD else set()
        sizes.append(len(own))
        numbers.extend(grams.setdefault(gram, len(grams)) for gram in own)
    return Table.of(sizes, numbers)
