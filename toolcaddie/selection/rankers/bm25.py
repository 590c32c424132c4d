"""The ranker `bm25`, ranking by words: BM25 over weighted fields (Robertson and Zaragoza, "The Probabilistic Relevance
Framework", 2009)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.ports import Ranker, Ranking, Scores, Visible
from toolcaddie.ports.ranking import Reasons
from toolcaddie.selection.index.postings import STRENGTH, Postings, QueryTerms, best_terms, postings_of

_WORDS_IN_REASON = 4
"""The largest number of words in the reason for a tool."""


class Bm25:
    """Ranks tools by the words that they have in common with the request.

    The score of the best tool is the share of the request's words that the visible tools have: if half of the words occur
    nowhere, it is 0.5. Stop words count a little if there are content words too, and otherwise only in names.
    """

    name = "bm25"

    def __init__(self, postings: Postings) -> None:
        self.postings = postings

    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        """Returns the BM25F score of every tool, scaled as the class says; 0 for a hidden tool or one without words of the
        query."""
        postings = self.postings
        query_terms = postings.query_terms(words, visible)
        if not query_terms.has_content:
            return Ranking(scores=np.zeros(postings.size, dtype=np.float32), calibrated=True)
        weights = query_terms.weights * query_terms.rarity
        scores = postings.summed(query_terms.ids, weights)
        if visible is not None:
            scores[~visible] = 0.0
        best = scores.max(initial=0.0)
        if best > 0:
            scores = scores * np.float32(query_terms.known_share / best)
        return Ranking(scores=scores, calibrated=True, explain=partial(self._reasons, query_terms, weights))

    def _reasons(self, query_terms: QueryTerms, weights: Scores, positions: Sequence[int]) -> Reasons:
        """Returns, for the tool at each position, the content words of the query that occur in it, those that contribute most to
        its score first. `weights` has the weight of each of `query_terms.ids`."""
        worth = np.zeros(len(self.postings.vocabulary), dtype=np.float32)
        worth[query_terms.ids] = weights * query_terms.content
        terms = best_terms(self.postings.terms_of(positions), worth, _WORDS_IN_REASON, value=STRENGTH)
        word_of = query_terms.words()
        return [_words_in_common(dict.fromkeys(word_of[term] for term in tool_terms)) for tool_terms in terms]


def factory(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
    return Bm25(postings_of(catalog, previous.postings if isinstance(previous, Bm25) else None))


def _words_in_common(words: Iterable[str]) -> tuple[str, ...]:
    text = ", ".join(words)
    return (f"words: {text}",) if text else ()
