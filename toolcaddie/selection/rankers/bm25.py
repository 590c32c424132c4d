"""Ranking by words: BM25 over weighted fields (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog, CatalogChange, Mask
from toolcaddie.ports import QueryWords, Ranker
from toolcaddie.selection.index.postings import Asked, Postings, Scope, best_terms, postings_after, postings_of
from toolcaddie.selection.remembered import Remembered

Floats = npt.NDArray[np.float32]

_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Answer:
    """What was asked, and what each content word was worth, by its term of the vocabulary."""

    asked: Asked
    worth: Floats


class Bm25:
    """Each tool by the words it shares with the request.

    The best tool has the part of the request that the catalog knows words for: where half of the words are strange to it,
    even the best hit is half a hit. Stop words count a little beside content words and nothing without them.
    """

    name = "bm25"
    calibrated = True

    def __init__(self, postings: Postings) -> None:
        self._postings = postings
        self._last = Remembered[_Answer]()

    def scores(self, words: QueryWords, mask: Mask | None) -> Floats:
        """BM25F of every tool, scaled as said above; 0 where no word of the query stands or the tool is hidden."""
        postings = self._postings
        asked, scope = postings.asked(words), postings.scope(mask)
        if not postings.speaks(asked, scope):
            return np.zeros(postings.size, dtype=np.float32)
        weights = _weights(asked, scope)
        worth = _dense(asked, weights * asked.content, len(postings.vocabulary))
        self._last.keep(words, _Answer(asked=asked, worth=worth))
        scores = postings.summed(asked.ids, weights)
        if mask is not None:
            scores[~mask] = 0.0
        best = scores.max(initial=0.0)
        return scores * np.float32(postings.known_share(asked, scope) / best) if best > 0 else scores

    def changed(self, change: CatalogChange) -> Ranker:
        return Bm25(postings_after(change, self._postings))

    def reasons(self, words: QueryWords, positions: Sequence[int]) -> Sequence[tuple[str, ...]]:
        """The words of the query that stand in each tool, the weightiest first, as the scores just counted them."""
        answer = self._last.of(words)
        if answer is None:
            return [()] * len(positions)
        shown = best_terms(self._postings.terms_of(positions), answer.worth, _SHOWN, value=0)
        word_of = answer.asked.words()
        return [_said(dict.fromkeys(word_of[term] for term in terms)) for terms in shown]


def factory(catalog: Catalog) -> Ranker:
    return Bm25(postings_of(catalog))


def _said(words: Iterable[str]) -> tuple[str, ...]:
    text = ", ".join(words)
    return (f"words: {text}",) if text else ()


def _weights(asked: Asked, scope: Scope) -> Floats:
    """What each entry is worth: how much it was said, times how rare it is."""
    weights: Floats = asked.said[asked.term] * asked.part * scope.rarity[asked.ids]
    return weights


def _dense(asked: Asked, weights: Floats, size: int) -> Floats:
    dense = np.zeros(size, dtype=np.float32)
    dense[asked.ids] = weights
    return dense
