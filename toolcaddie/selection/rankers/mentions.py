"""The ranker `mentions`, ranking by name: tools score high if the request contains the words of their name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.ports import Ranker, Ranking, Scores, Visible
from toolcaddie.ports.ranking import Reasons
from toolcaddie.selection.index.postings import Postings, postings_of

_WORTH_SAYING = 0.5
"""The least score for which a reason is given."""


class Mentions:
    """Ranks tools by the share of their name that the request mentions, squared: half of a name may be mentioned by chance, a
    whole name hardly ever. Rare words count more. The words may be anywhere in the request. Stop words count like others, because
    they have a meaning in a name."""

    name = "mentions"

    def __init__(self, postings: Postings) -> None:
        self.postings = postings

    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        """Returns for each tool the squared share of its name that the request mentions; 0 for a hidden tool."""
        postings = self.postings
        query_terms = postings.query_terms(words, visible)
        weights = query_terms.nearest[query_terms.term] * query_terms.rarity
        share = postings.name_sums(query_terms.ids, weights) / query_terms.scope.names
        if visible is not None:
            share[~visible] = 0.0
        scores: Scores = np.square(share)
        return Ranking(scores=scores, calibrated=True, explain=partial(_reasons, scores))


def factory(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
    return Mentions(postings_of(catalog, previous.postings if isinstance(previous, Mentions) else None))


def _reasons(scores: Scores, positions: Sequence[int]) -> Reasons:
    return [_reason(score) for score in scores[np.array(positions, dtype=np.int64)].tolist()]


def _reason(score: float) -> tuple[str, ...]:
    if score < _WORTH_SAYING:
        return ()
    return ("named",) if score > 0.99 else ("most of its name was said",)
