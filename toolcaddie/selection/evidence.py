"""From a query to its words, the categories they match, and the rankers' signals: the head of selection, search and fitting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.core.presets import SelectionSettings
from toolcaddie.core.selection import QueryWords, SelectionQuery
from toolcaddie.ports import Visible
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.query import query_words
from toolcaddie.selection.rankers.categories import CategoryMatches, Hit
from toolcaddie.selection.scores import Scored, Signals, fused, signals_of

NO_MATCHES = CategoryMatches()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """The words, matches and signals of a query, before they are weighed."""

    words: QueryWords
    matches: CategoryMatches
    signals: Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReader:
    """Reads queries by a selector's settings. Pure."""

    settings: SelectionSettings
    scorers: tuple[str, ...]
    """The settings' rankers but for the categories, which decide the allotment too and so are asked apart."""
    by_keyword: bool
    """The categories rank as well."""

    def for_selection(self, index: CatalogIndex, query: SelectionQuery, mask: Visible | None) -> Evidence:
        """Returns the evidence of a query whose categories are matched, suggested, or fixed by the caller."""
        words = self._words(query)
        if query.categories is not None:
            return _evidence(index, words, _fixed(index, query.categories, mask), ("categories", *self.scorers), mask)
        if self.by_keyword or query.suggested:
            matches = index.categories.matches(words, mask, query.suggested)
            return _evidence(index, words, matches, ("categories", *self.scorers), mask)
        return _evidence(index, words, NO_MATCHES, self.scorers, mask)

    def for_search(self, index: CatalogIndex, query: SelectionQuery, mask: Visible | None) -> Evidence:
        """Returns the evidence of a query for its matches alone: a category's relation is no match."""
        words = self._words(query)
        matches = CategoryMatches(matched=index.categories.matches(words, mask).matched)
        return _evidence(index, words, matches, ("categories", *(self.scorers or ("bm25",))), mask)

    def for_words(self, index: CatalogIndex, words: QueryWords, scorers: tuple[str, ...]) -> Evidence:
        """Returns the evidence of words by some of the scorers, for all tools."""
        if not self.by_keyword:
            return _evidence(index, words, NO_MATCHES, scorers, None)
        return _evidence(index, words, index.categories.matches(words, None), ("categories", *scorers), None)

    def scored(self, evidence: Evidence) -> Scored:
        """Returns one score a tool, by the settings' weights."""
        return fused(evidence.signals, self.settings.weights, self.settings.nothing_fits)

    def _words(self, query: SelectionQuery) -> QueryWords:
        return query_words(query, window=self.settings.window, window_user=self.settings.window_user)


def _evidence(
    index: CatalogIndex, words: QueryWords, matches: CategoryMatches, rankers: tuple[str, ...], mask: Visible | None
) -> Evidence:
    return Evidence(words=words, matches=matches, signals=signals_of(index, rankers, words, matches, mask))


def _fixed(index: CatalogIndex, names: Sequence[str], mask: Visible | None) -> CategoryMatches:
    """Returns the visible categories of these names, in the order of the names."""
    visible = index.categories.visible(mask)
    positions = (index.categories.index(name) for name in dict.fromkeys(names))
    return CategoryMatches(matched={i: Hit(weight=1.0) for i in positions if i is not None and visible[i]})
