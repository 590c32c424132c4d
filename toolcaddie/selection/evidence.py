"""Turns a query into evidence: its words, the categories that these match, and the scores of the rankers (their signals).

This is the first step of a selection, of a search, and of fitting weights; `scores` then makes one score of all signals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from toolcaddie.core.presets import SelectionSettings
from toolcaddie.core.selection import QueryWords, SelectionQuery
from toolcaddie.ports import Visible
from toolcaddie.selection.fit import doubt_of
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.query import query_words
from toolcaddie.selection.rankers.categories import CategoryMatches, Hit
from toolcaddie.selection.scores import Scored, Signals, fused, signals_of
from toolcaddie.util.replacing import replace

NO_MATCHES = CategoryMatches()


class Evidence(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The words of a query, the categories that match them, and the rankers' signals, before weights are applied."""

    index: CatalogIndex
    mask: Visible | None
    words: QueryWords
    matches: CategoryMatches
    signals: Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReader:
    """Gets the evidence of queries by the settings of one selector. Pure: no I/O and no state."""

    settings: SelectionSettings
    scorers: tuple[str, ...]
    """Names of the rankers in the settings, except `categories`. That one is handled apart, because matched categories also
    decide the allotment."""
    by_keyword: bool
    """True if the settings also have the ranker `categories`, so that keywords of categories count."""

    def for_selection(self, index: CatalogIndex, query: SelectionQuery, mask: Visible | None) -> Evidence:
        """Returns the evidence of a query for a selection. Its categories are those that the caller fixed; otherwise those that
        match by keyword or were suggested by a first stage."""
        words = self._words(index, query, mask)
        if query.categories is not None:
            return _evidence(index, words, _fixed(index, query.categories, mask), ("categories", *self.scorers), mask)
        if self.by_keyword or query.suggested:
            matches = index.categories.matches(words, mask, query.suggested)
            return _evidence(index, words, matches, ("categories", *self.scorers), mask)
        return _evidence(index, words, NO_MATCHES, self.scorers, mask)

    def for_search(self, index: CatalogIndex, query: SelectionQuery, mask: Visible | None) -> Evidence:
        """Returns the evidence of a query for a search. Categories that are only related to a matched one do not count."""
        words = self._words(index, query, mask)
        matches = CategoryMatches(matched=index.categories.matches(words, mask).matched)
        return _evidence(index, words, matches, ("categories", *(self.scorers or ("bm25",))), mask)

    def for_words(self, index: CatalogIndex, words: QueryWords, scorers: tuple[str, ...]) -> Evidence:
        """Returns the evidence of words by these `scorers` alone, for all tools of the catalog."""
        words = index.languages().read(words, None)
        if not self.by_keyword:
            return _evidence(index, words, NO_MATCHES, scorers, None)
        return _evidence(index, words, index.categories.matches(words, None), ("categories", *scorers), None)

    def scored(self, evidence: Evidence) -> Scored:
        """Returns one score for each tool, by the weights in the settings, and the probability that none of them fits."""
        signals = evidence.signals
        scored = fused(signals, self.settings.weights, self.settings.nothing_fits)
        return replace(scored, doubt=doubt_of(evidence.index, evidence.words, signals, scored, evidence.mask))

    def _words(self, index: CatalogIndex, query: SelectionQuery, mask: Visible | None) -> QueryWords:
        words = query_words(query, window=self.settings.window, window_user=self.settings.window_user)
        return index.languages().read(words, mask)


def _evidence(
    index: CatalogIndex, words: QueryWords, matches: CategoryMatches, rankers: tuple[str, ...], mask: Visible | None
) -> Evidence:
    return Evidence(
        index=index, mask=mask, words=words, matches=matches, signals=signals_of(index, rankers, words, matches, mask)
    )


def _fixed(index: CatalogIndex, names: Sequence[str], mask: Visible | None) -> CategoryMatches:
    """Returns the visible categories of these names, in the order of the names."""
    visible = index.categories.visible(mask)
    positions = (index.categories.index(name) for name in dict.fromkeys(names))
    return CategoryMatches(matched={i: Hit(weight=1.0) for i in positions if i is not None and visible[i]})
