"""The ranker `characters`, ranking by spelling: two words are alike if they have many n-grams (runs of 2 to 4 characters) in
common.

It finds words that stemming does not find: typing errors, compounds ("airquality" for "air quality"), and inflections of
languages without a stemmer. Each word of the request is replaced by similar words of the catalog, and tools are found by these.
Comparing all n-grams of all texts would find the same tools and take many times as long.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice

import msgspec
import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.ports import Ranker, Ranking, Visible
from toolcaddie.ports.ranking import Reasons
from toolcaddie.selection.index.inverted import InvertedTable, Table
from toolcaddie.selection.index.postings import EVEN_COUNT, Postings, QueryTerms, best_terms, postings_of
from toolcaddie.selection.query import is_pair

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

ALIKE = 0.2
"""The least cosine of the n-grams of two words that are alike."""
SHARPNESS = 1.5
"""Exponent of this cosine; the power is the likeness of the words."""
MOST_ALIKE = 16
"""The largest number of words of the catalog that replace a word of the request."""

_SHORTEST, _LONGEST = 2, 4
_LONGEST_WORD = 40
"""The largest number of characters of a word that is compared; longer words are hashes or pasted data."""
_MOST_CACHED = 4_096
"""The largest number of words whose similar terms are cached."""
_ROUNDING = 1e-9
"""Tolerance for rounding errors when a cosine is compared with `ALIKE`."""
_WORTH_SAYING = 0.35
"""The likeness above which a pair of words is given as a reason."""
_PAIRS_IN_REASON = 2
"""The largest number of pairs of words in the reason for a tool."""


class _Alike(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Terms of the vocabulary that are like a word: first its stems, then the others, the most similar first."""

    ids: Longs
    likeness: Floats
    """Likeness of each term, 0 to 1."""
    best: float
    """The highest likeness."""

    @classmethod
    def of(cls, ids: Longs, likeness: Floats) -> _Alike:
        return cls(ids=ids, likeness=likeness, best=float(likeness.max(initial=0.0)))

    def among(self, having: Ints) -> _Alike:
        """Returns the first few terms that a visible tool has."""
        selected = np.flatnonzero(having[self.ids])[:MOST_ALIKE]
        return _Alike.of(self.ids[selected], self.likeness[selected])


_NOTHING = _Alike(ids=np.empty(0, dtype=np.int64), likeness=np.empty(0, dtype=np.float32), best=0.0)
"""Result for a stop word in a request without a known content word: no terms."""


class _Likeness(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The terms of the vocabulary that resemble words of the request."""

    ids: Longs
    likeness: Floats
    counts: Longs
    """Number of such terms for each word of the request."""
    share: float
    """Share of the request's words that have such terms, each by the likeness of its most similar one."""


class Spelling:
    """Finds the terms of a vocabulary that are spelled like a word, by their n-grams. It never changes, except for its cache."""

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        grams: dict[str, int],
        inverted: InvertedTable,
        alphabet: list[str],
        ranks: Longs,
    ) -> None:
        self.words = tuple(vocabulary)
        self._vocabulary = vocabulary
        self._grams = grams
        self._inverted = inverted
        self._sizes = inverted.sizes()
        self._least = np.sqrt(np.maximum(ALIKE**2 * self._sizes - _ROUNDING, _ROUNDING))
        """The least number of common n-grams that makes a word alike, divided by the root of the number of n-grams of the other
        word."""
        self._alphabet = alphabet
        self._ranks = ranks
        """Alphabetical rank of each word."""
        self.alike = lru_cache(maxsize=_MOST_CACHED)(self._find_alike)
        self.most_alike = lru_cache(maxsize=_MOST_CACHED)(self._find_most_alike)

    @classmethod
    def of(cls, vocabulary: Mapping[str, int]) -> Spelling:
        """Makes the `Spelling` of a vocabulary, a mapping from words to their numbers."""
        grams: dict[str, int] = {}
        table = _table_of(vocabulary, grams)
        alphabet = sorted(vocabulary)
        ranks = np.empty(len(alphabet), dtype=np.int64)
        ranks[[vocabulary[word] for word in alphabet]] = np.arange(len(alphabet))
        return cls(vocabulary, grams, InvertedTable.of(table, len(grams)), alphabet, ranks)

    def grown(self, vocabulary: Mapping[str, int]) -> Spelling:
        """Returns the `Spelling` of a vocabulary that begins with the same words in the same order and has more words after
        them."""
        words = tuple(islice(vocabulary, len(self.words), None))
        grams = dict(self._grams)
        table = _table_of(words, grams)
        alphabet = list(self._alphabet)
        for word in words:
            insort(alphabet, word)
        new = np.array([bisect_left(alphabet, word) for word in words], dtype=np.int64)
        free = np.delete(np.arange(len(alphabet)), new)  # the old words in their order
        ranks = np.concatenate([free[self._ranks], new])
        return Spelling(vocabulary, grams, self._inverted.joined(table, len(grams)), alphabet, ranks)

    def _find_most_alike(self, word: str, stems: tuple[str, ...], content: bool) -> _Alike:
        """Returns the first few of the terms that `_find_alike` returns."""
        alike = self.alike(word, stems, content)
        if len(alike.ids) <= MOST_ALIKE:
            return alike
        return _Alike.of(alike.ids[:MOST_ALIKE], alike.likeness[:MOST_ALIKE])

    def _find_alike(self, word: str, stems: tuple[str, ...], content: bool) -> _Alike:
        """Returns the stems of a word, then the terms that are like the word.

        For a stop word, which is no typing error, and for a pair of Han or kana, which has too few n-grams, only the stems are
        returned.
        """
        own = np.array([self._vocabulary[stem] for stem in stems if stem in self._vocabulary], dtype=np.int64)
        same = np.array([1 / len(stems)] * len(own), dtype=np.float32)
        if not content or len(word) > _LONGEST_WORD or is_pair(word):
            return _Alike.of(own, same)
        grams = _grams(word)
        gram_numbers = [number for gram in grams if (number := self._grams.get(gram)) is not None]
        shared = self._inverted.shared(np.array(gram_numbers, dtype=np.int64))
        shared[own] = 0
        others = (shared >= len(grams) ** 0.5 * self._least).nonzero()[0]
        cosine = shared[others] / np.sqrt(len(grams) * self._sizes[others])
        # Ties are ordered alphabetically, because the numbers of terms depend on tools that the caller may not see.
        best = np.lexsort((self._ranks[others], -cosine))
        likeness = (cosine[best] ** SHARPNESS).astype(np.float32)
        return _Alike.of(np.concatenate([own, others[best]]), np.concatenate([same, likeness]))


class Characters:
    """Ranks tools by the words that are like words of the request, relative to the length of the tool's texts.

    The score of the best tool is the share of the request's words that have similar words in the catalog, each by its likeness.
    """

    name = "characters"

    def __init__(self, postings: Postings, spelling: Spelling | None = None) -> None:
        self.postings = postings
        self._spelling = spelling or Spelling.of(postings.vocabulary)

    def following(self, catalog: Catalog) -> Characters:
        """Returns the ranker of a catalog that differs in few tools."""
        postings = postings_of(catalog, self.postings)
        if postings.vocabulary is self.postings.vocabulary:
            return Characters(postings, self._spelling)
        size = len(self._spelling.words)
        if tuple(islice(postings.vocabulary, size)) != self._spelling.words:
            return Characters(postings)  # terms of removed tools were dropped
        return Characters(postings, self._spelling.grown(postings.vocabulary))

    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        """Returns a score for each tool, scaled as the class says; 0 for a hidden tool, and for all tools if no word of the
        catalog resembles a word of the request."""
        postings = self.postings
        query_terms = postings.query_terms(words, visible)
        scope = query_terms.scope
        alike = self._alike(query_terms, visible)
        if alike is None:
            return Ranking(scores=np.zeros(postings.size, dtype=np.float32), calibrated=True)
        weights = query_terms.term_weights.repeat(alike.counts) * alike.likeness * np.square(scope.rarity[alike.ids])
        scores = postings.summed(alike.ids, weights, value=EVEN_COUNT) / scope.lengths
        if visible is not None:
            scores[~visible] = 0.0
        best = scores.max(initial=0.0)
        if best > 0:
            scores *= np.float32(alike.share / best)
        return Ranking(scores=scores, calibrated=True, explain=partial(self._reasons, query_terms, alike))

    def _alike(self, query_terms: QueryTerms, visible: Visible | None) -> _Likeness | None:
        """Returns the terms that resemble words of the request; None if there are none."""
        spelling, has_content = self._spelling, query_terms.has_content
        having = None if visible is None and not self.postings.has_unused_terms else query_terms.scope.having
        find = spelling.most_alike if having is None else spelling.alike
        alike = [
            find(term.word, term.stems, term.content) if term.content or has_content else _NOTHING
            for term in query_terms.reading.terms
        ]
        if having is not None:
            alike = [each.among(having) for each in alike]
        counts = [len(each.ids) for each in alike]
        if not any(counts):
            return None
        weights = query_terms.term_weights.tolist()
        share = sum(each.best * weight for each, weight in zip(alike, weights, strict=True)) / sum(weights)
        return _Likeness(
            ids=np.concatenate([each.ids for each in alike]),
            likeness=np.concatenate([each.likeness for each in alike]),
            counts=np.array(counts, dtype=np.int64),
            share=share,
        )

    def _reasons(self, query_terms: QueryTerms, alike: _Likeness, positions: Sequence[int]) -> Reasons:
        """Returns the reasons for the tools at these positions: their words that are spelled like words of the request. Identical
        words are omitted, because the ranker `bm25` reports them."""
        likeness = np.zeros(len(self._spelling.words), dtype=np.float32)
        word = np.zeros(len(self._spelling.words), dtype=np.int32)
        likeness[alike.ids] = alike.likeness
        word[alike.ids] = np.arange(len(alike.counts), dtype=np.int32).repeat(alike.counts)
        likeness[query_terms.ids] = 0.0
        query_spelling = tuple(term.word for term in query_terms.reading.terms)
        best = best_terms(self.postings.terms_of(positions), likeness, _PAIRS_IN_REASON, least=_WORTH_SAYING)
        return [
            _spelled_alike(f"{self._spelling.words[term]} for {query_spelling[word[term]]}" for term in terms)
            for terms in best
        ]


def factory(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
    return previous.following(catalog) if isinstance(previous, Characters) else Characters(postings_of(catalog))


def _spelled_alike(pairs: Iterable[str]) -> tuple[str, ...]:
    text = ", ".join(pairs)
    return (f"spelled alike: {text}",) if text else ()


def _grams(word: str) -> set[str]:
    """Returns the n-grams of a word with a blank at both ends."""
    marked = f" {word} "
    return {
        marked[start : start + length]
        for length in range(_SHORTEST, _LONGEST + 1)
        for start in range(max(1, len(marked) - length + 1))
    }


def _table_of(words: Collection[str], grams: dict[str, int]) -> Table:
    """Returns a table with a row for each word and a column for each n-gram. Adds new n-grams and their numbers to `grams`."""
    sizes: list[int] = []
    numbers: list[int] = []
    for word in words:
        own = _grams(word) if len(word) <= _LONGEST_WORD else set()
        sizes.append(len(own))
        numbers.extend(grams.setdefault(gram, len(grams)) for gram in own)
    return Table.of(sizes, numbers)
