"""Scores the chunks of one reader for a query, by words and by meaning, and joins both.

Nothing here depends on a chunk that the reader may not see: words are counted, and the usual vector is taken, among the visible
ones only. So no score tells anything about the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from toolcaddie.tools.memory.segment import Bools, Floats, Ints, Segment

K1, B = 1.5, 0.75
"""Parameters of BM25."""
_USUAL_LENGTH = 200.0
"""Words of a usual chunk. A constant, because a mean would change with every chunk of another person."""
WORDS, MEANING = 0.5, 0.5
"""Shares of both signals. Fitted by `benchmarks.memory --fit` to dialogues that its figures do not use."""
_FEW = 50
"""Number of visible chunks at which half of the usual vector is subtracted; with fewer, they say little about what is usual."""
_MOST_ALIKE = 8
"""The largest number of terms that stand for a word that no visible chunk has."""
_NEAR = 0.05
"""Cosine, above that of unrelated chunks, up to which a chunk is not near."""


class QueryWord(Struct, frozen=True, kw_only=True):
    """A word of a query."""

    word: str
    weight: float
    """0.5 to 1: less for words that are common in English."""
    terms: tuple[int, ...]
    """Its stems in the vocabulary, of all languages."""
    alike: Callable[[], Sequence[tuple[int, str, float]]]
    """Returns terms that are spelled like the word, each with its own spelling and its likeness, the most similar first."""


class Postings(Struct, frozen=True, kw_only=True):
    """A term of the query, in each segment: the visible rows that have it and how often."""

    word: str
    worth: float
    """Weight of the word times its likeness to the term."""
    rows: list[tuple[Ints, Floats]]

    @property
    def having(self) -> int:
        return sum(len(rows) for rows, _ in self.rows)


class WordScores(Struct, frozen=True, kw_only=True):
    """The scores by words."""

    scores: list[Floats]
    """BM25 of each row of each segment."""
    covered: list[Floats]
    """Share of the query's words that each row has, by their weights and rarities."""
    postings: Sequence[Postings]


def word_scores(words: Sequence[QueryWord], segments: Sequence[Segment], masks: Sequence[Bools]) -> WordScores:
    """Returns the BM25 scores of the visible rows."""
    total = sum(int(mask.sum()) for mask in masks)
    scores = [np.zeros(len(segment), dtype=np.float32) for segment in segments]
    covered = [np.zeros(len(segment), dtype=np.float32) for segment in segments]
    norms = [K1 * (1 - B + B * segment.lengths / _USUAL_LENGTH) for segment in segments]
    postings = [each for word in words for each in _postings_of(word, segments, masks)]
    known = {each.word for each in postings}
    whole = sum(word.weight * _rarity(total, 0) for word in words if word.word not in known)
    for name in known:
        whole += max(each.worth * _rarity(total, each.having) for each in postings if each.word == name)
    for each in postings:
        worth = np.float32(each.worth * _rarity(total, each.having))
        for number, (rows, counts) in enumerate(each.rows):
            scores[number][rows] += worth * counts * np.float32(K1 + 1) / (counts + norms[number][rows])
            covered[number][rows] += worth / np.float32(whole)
    return WordScores(scores=scores, covered=[np.minimum(each, 1.0) for each in covered], postings=postings)


def _postings_of(word: QueryWord, segments: Sequence[Segment], masks: Sequence[Bools]) -> list[Postings]:
    """Returns the terms of a word that visible rows have; if there are none, those that are spelled like it."""
    own = [_postings(word.word, term, word.weight, segments, masks) for term in word.terms]
    own = [each for each in own if each.having]
    if own:
        return own
    alike: list[Postings] = []
    for term, spelling, likeness in word.alike():
        each = _postings(spelling, term, word.weight * likeness, segments, masks)
        if each.having:
            alike.append(each)
        if len(alike) == _MOST_ALIKE:
            break
    return alike


def _postings(word: str, term: int, worth: float, segments: Sequence[Segment], masks: Sequence[Bools]) -> Postings:
    visible = []
    for segment, mask in zip(segments, masks, strict=True):
        rows, counts = segment.entries(term)
        seen = mask[rows]
        visible.append((rows[seen], counts[seen].astype(np.float32)))
    return Postings(word=word, worth=worth, rows=visible)


def _rarity(total: int, having: int) -> float:
    return float(np.log(1 + (total - having + 0.5) / (having + 0.5)))


def nearness(query: Floats, rows: Sequence[Floats], masks: Sequence[Bools]) -> list[Floats]:
    """Returns the cosine of each visible row to the query, both less the usual vector: what all chunks have in common, such as
    the tone of a chat, tells nothing about one of them. 0 for hidden rows, for rows without a vector, and for those that are not
    near.

    `rows`: the vectors of each segment, of length 1 or all zeros.
    """
    total = sum(int(mask.sum()) for mask in masks)
    if not total or not query.any():
        return [np.zeros(len(each), dtype=np.float32) for each in rows]
    sums = [mask.astype(np.float32) @ each for each, mask in zip(rows, masks, strict=True)]
    usual: Floats = np.stack(sums).sum(axis=0) / np.float32(total + _FEW)
    square = np.float32(usual @ usual)
    length = float(np.linalg.norm(query - usual))
    near: list[Floats] = []
    for each, mask in zip(rows, masks, strict=True):
        products, shared = each @ query, each @ usual
        has = mask & (products != 0)
        above = products - shared - np.float32(query @ usual) + square
        lengths = np.sqrt(np.maximum(1 - 2 * shared + square, np.float32(1e-6)))
        cosines = above / (lengths * np.float32(max(length, 1e-6)))
        near.append(np.where(has & (cosines > _NEAR), np.minimum(cosines, 1), 0).astype(np.float32))
    return near


def joined(words: WordScores, near: Sequence[Floats], share: float = WORDS) -> list[Floats]:
    """Returns one score of 0 to 1 for each row. Words and meaning decide the order, each relative to its best row; the score of
    the best row is the share of the query's words that it has, and its nearness."""
    best_words = max((float(each.max(initial=0)) for each in words.scores), default=0.0)
    best_near = max((float(each.max(initial=0)) for each in near), default=0.0)
    order = [
        np.float32(share / (best_words or 1.0)) * by_words + np.float32((1 - share) / (best_near or 1.0)) * by_meaning
        for by_words, by_meaning in zip(words.scores, near, strict=True)
    ]
    tops = [(float(each.max()), number, int(each.argmax())) for number, each in enumerate(order) if len(each)]
    if not tops or max(tops)[0] <= 0:
        return order
    best, number, row = max(tops)
    fit = share * float(words.covered[number][row]) + (1 - share) * float(near[number][row])
    return [each * np.float32(fit / best) for each in order]
