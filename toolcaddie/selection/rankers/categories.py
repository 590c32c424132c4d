"""The ranker `categories`, ranking by keywords: if a message has a keyword of a category, the category's tools fit, and those of
related categories may fit.

One automaton (Aho-Corasick) searches a message for all keywords of a catalog at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
from ahocorasick_rs import AhoCorasick, MatchKind

from toolcaddie.core.catalog import Catalog, Category
from toolcaddie.core.selection import QueryWords
from toolcaddie.ports import Ranker, Ranking, Visible
from toolcaddie.selection.index.change import category_of
from toolcaddie.selection.query import fold

MatchMode = Literal["word", "substring"]

RELATED = 0.5
"""Factor on the weight of a related category, for every step along relations."""

_NOT_WORD = re.compile(r"[\W_]+")
_NO_SPACES = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a category fits a request: a keyword, a relation to another category, a suggestion, or, without any of
    these, the caller's choice."""

    weight: float
    keyword: str = ""
    message: int = 0
    """Index of the message with the keyword in `QueryWords.messages`, followed by the translations; 0 is the current message."""
    related_to: str = ""
    """Name of the category to which this one is related."""
    suggested: bool = False
    """True if the first stage (a model, see `classifier`) named the category."""


class CategoryMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The categories that fit a request, by their index in the catalog: those that matched, and those related to them."""

    matched: Mapping[int, Hit] = msgspec.field(default_factory=dict)
    related: Mapping[int, Hit] = msgspec.field(default_factory=dict)


class Categories:
    """Matches the categories of one catalog by keyword, and ranks their tools.

    With `match` = `word`, a keyword matches as a whole word or phrase, also with s, es, 's or y -> ies at its end. Case and
    accents make no difference, and every character except letters and digits is a boundary. With `substring`, it matches anywhere
    in the lower-case text, for the `keyword` preset. `related_depth`: the number of steps along relations; None: no limit.
    """

    name = "categories"

    def __init__(
        self,
        catalog: Catalog,
        *,
        match: MatchMode = "word",
        related_depth: int | None = None,
        previous: Categories | None = None,
    ) -> None:
        """`previous`: the same object for an earlier catalog with the same categories in the same order, whose automaton is
        shared."""
        self._catalog = catalog
        self._match: MatchMode = match
        self._depth = related_depth
        self._normalise: Callable[[str], str] = _spaced if match == "word" else str.lower
        self._index: Mapping[str, int]
        self._owners: Owners
        self._automaton: AhoCorasick | None
        self._related: Sequence[tuple[int, ...]]
        if previous is not None:
            self._index, self._owners, self._automaton = previous._index, previous._owners, previous._automaton
            self._related = previous._related
        else:
            self._index = {category.name: i for i, category in enumerate(catalog.categories)}
            self._owners, self._automaton = _automaton(catalog.categories, _forms if match == "word" else _plain)
            self._related = [
                tuple(self._index[name] for name in category.related if name in self._index)
                for category in catalog.categories
            ]
        self._category_of = category_of(catalog).astype(np.int32)
        self._no_scores = np.zeros(len(catalog), dtype=np.float32)
        self._no_scores.flags.writeable = False
        self._all_visible = np.bincount(self._category_of + 1, minlength=len(self._index) + 1)[1:] > 0

    def following(self, catalog: Catalog) -> Categories:
        """Returns the ranker of a later catalog; if the categories are the same, the automaton is shared."""
        previous = self if self._catalog.categories == catalog.categories else None
        return Categories(catalog, match=self._match, related_depth=self._depth, previous=previous)

    @property
    def category_of(self) -> npt.NDArray[np.int32]:
        """Index of each tool's category, -1 for none."""
        return self._category_of

    def index(self, name: str) -> int | None:
        """Returns the index of a category in the catalog, or None if there is no category of that name."""
        return self._index.get(name)

    def visible(self, mask: Visible | None) -> npt.NDArray[np.bool_]:
        """Returns a flag for each category: True if it has a visible tool. A category without one must not be revealed."""
        return self._all_visible if mask is None else self._visible_categories(mask)

    def matches(self, words: QueryWords, mask: Visible | None, suggested: Iterable[str] = ()) -> CategoryMatches:
        """Returns the matched categories (those with a keyword in these words, and the suggested ones), and the categories
        related to them, both in catalog order."""
        visible = self.visible(mask)
        hits: dict[int, Hit] = {}
        if self._automaton is not None:
            for number, (text, weight) in enumerate(self._searched(words)):
                for owner, keyword in self._owned(text):
                    if visible[owner] and (owner not in hits or hits[owner].weight < weight):
                        hits[owner] = Hit(weight=weight, keyword=keyword, message=number)
        for name in suggested:
            index = self._index.get(name)
            if index is not None and visible[index]:
                hits[index] = Hit(weight=1.0, suggested=True)
        matched = {index: hits[index] for index in sorted(hits)}
        return CategoryMatches(matched=matched, related=self._expanded(matched, visible))

    def _searched(self, words: QueryWords) -> Sequence[tuple[str, float]]:
        """Returns the texts that are searched for keywords, with their weights. Matches anywhere in a text are literal: they are
        not searched in translations."""
        return (*words.messages, *words.translations) if self._match == "word" else words.messages

    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        """Returns the ranking of all tools by the keywords in these words."""
        return self.ranking_of(self.matches(words, visible), visible)

    def ranking_of(self, matches: CategoryMatches, visible: Visible | None) -> Ranking:
        """Returns the ranking by these matches."""
        return Ranking(
            scores=self.scores_of(matches, visible), calibrated=True, explain=partial(self.reasons_in, matches)
        )

    def scores_of(self, matches: CategoryMatches, mask: Visible | None) -> npt.NDArray[np.float32]:
        """Returns a score for each tool: the weight of its category's hit, which for a keyword is the highest weight of a message
        that has one."""
        if not matches.matched and not matches.related:
            return self._no_scores
        by_category = np.zeros(len(self._index) + 1, dtype=np.float32)  # the last place is index -1: no category
        for index, hit in (*matches.matched.items(), *matches.related.items()):
            by_category[index] = hit.weight
        scores = by_category[self._category_of]
        if mask is not None:
            scores[~mask] = 0.0
        return scores

    def reasons_in(self, matches: CategoryMatches, positions: Sequence[int]) -> list[tuple[str, ...]]:
        if not matches.matched and not matches.related:
            return [()] * len(positions)
        return [self.reasons_of(matches, position) for position in positions]

    def reasons_of(self, matches: CategoryMatches, position: int) -> tuple[str, ...]:
        """Returns the reason why the category of the tool at this position fits; empty: it does not fit."""
        index = int(self._category_of[position])
        name = self._catalog.categories[index].name if index >= 0 else ""
        if (hit := matches.matched.get(index)) is not None:
            if hit.suggested:
                return (f"category {name}: named by the first stage",)
            earlier = " in an earlier message" if hit.message else ""
            return (f"category {name}: {hit.keyword!r}{earlier}" if hit.keyword else f"category {name}: asked for",)
        if (hit := matches.related.get(index)) is not None:
            return (f"category {name}: related to {hit.related_to}",)
        return ()

    def _owned(self, text: str) -> Iterable[tuple[int, str]]:
        """Yields (category, keyword) for every keyword in a text, each once, in the order of the keywords."""
        assert self._automaton is not None
        hits = self._automaton.find_matches_as_indexes(self._normalise(text), overlapping=True)
        for pattern in sorted({hit[0] for hit in hits}):
            yield from self._owners[pattern]

    def _expanded(self, matched: Mapping[int, Hit], visible: npt.NDArray[np.bool_]) -> dict[int, Hit]:
        """Returns the visible categories that are related to the matched ones, directly or by several steps, in catalog order."""
        added: dict[int, Hit] = {}
        frontier: Mapping[int, Hit] = matched
        steps = 0
        while frontier and (self._depth is None or steps < self._depth):
            reached: dict[int, Hit] = {}
            for index, hit in frontier.items():
                for other in self._related[index]:
                    if visible[other] and other not in matched and other not in added and other not in reached:
                        parent = self._catalog.categories[index].name
                        reached[other] = Hit(weight=hit.weight * RELATED, related_to=parent)
            added.update(reached)
            frontier = reached
            steps += 1
        return {index: added[index] for index in sorted(added)}

    def _visible_categories(self, mask: Visible) -> npt.NDArray[np.bool_]:
        visible_categories = self._category_of[mask]
        counts: npt.NDArray[np.bool_] = (
            np.bincount(visible_categories[visible_categories >= 0], minlength=len(self._index)) > 0
        )
        return counts


def factory(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
    return previous.following(catalog) if isinstance(previous, Categories) else Categories(catalog)


Owners = Sequence[Sequence[tuple[int, str]]]


def _automaton(
    categories: Sequence[Category], forms: Callable[[str], Iterable[str]]
) -> tuple[Owners, AhoCorasick | None]:
    """Returns the (category, keyword) pairs of each pattern, and the automaton of all patterns."""
    owners: dict[str, list[tuple[int, str]]] = {}
    for index, category in enumerate(categories):
        for keyword in category.keywords:
            for pattern in forms(keyword):
                owners.setdefault(pattern, []).append((index, keyword))
    if not owners:
        return (), None
    return tuple(owners.values()), AhoCorasick(list(owners), matchkind=MatchKind.Standard)


def _spaced(text: str) -> str:
    """Returns the folded words of a text with one blank before, between and after them, so that a blank in a pattern is a word
    boundary."""
    return f" {_NOT_WORD.sub(' ', fold(text)).strip()} "


def _forms(keyword: str) -> Iterable[str]:
    """Yields the forms in which a keyword matches in a text made by `_spaced`. The possessive needs no form, because the
    apostrophe is a boundary."""
    word = _spaced(keyword).strip()
    if not word:
        return
    if _NO_SPACES.search(word):  # scripts without spaces have no word boundaries
        yield word
        return
    yield from (f" {word} ", f" {word}s ", f" {word}es ")
    if word.endswith("y"):
        yield f" {word[:-1]}ies "


def _plain(keyword: str) -> Iterable[str]:
    if word := keyword.lower():
        yield word
