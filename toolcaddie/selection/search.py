"""Searches the best tools for a query, without a budget: for meta tools, the command line and tests of a catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import View
from toolcaddie.core.presets import LEXICAL
from toolcaddie.core.selection import QueryWords, SelectedTool, SelectionQuery
from toolcaddie.ports import Visible
from toolcaddie.selection.diversity import REORDERED, spread, worth_of
from toolcaddie.selection.evidence import EvidenceReader
from toolcaddie.selection.explain import RankerReasons, later, rounded
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.index.links import Link
from toolcaddie.selection.index.masks import visible_in
from toolcaddie.selection.index.postings import postings_of

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_BY_WORDS = frozenset(LEXICAL[1:])
"""Rankers that use the index of the catalog's words. If one is in use, the index exists, and the order of the best tools can use
it too."""

_PLACE = 4
"""Index of the place of a tool that the best tool needs: the fifth."""
_LEAST = 0.3
"""The least weight of a relation for which a tool gets that place."""
_NAMES_ID = re.compile(r"\d|\bid\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """The results of a search."""

    tools: tuple[SelectedTool, ...]
    """The tools, the best first."""
    fit: float
    """The score of the best tool, 0 to 1."""
    doubt: float | None = None
    """The probability that no tool fits the query, if as many queries fit no tool as fit one; None: not estimated."""


def search(index: CatalogIndex, reader: EvidenceReader, view: View, query: SelectionQuery, limit: int) -> Ranked:
    """Returns at most `limit` of the visible tools that match the query, including core tools."""
    mask = visible_in(view)
    evidence = reader.for_search(index, query, mask)
    scored = reader.scored(evidence)
    scores = scored.scores
    hits = np.flatnonzero(scores > scored.floor)
    best = hits[np.argsort(-scores[hits], kind="stable")][: max(limit, 2 * REORDERED)]
    if reads_words(reader.scorers or ("bm25",)):
        best = diverse_order(index, evidence.words, scores, best, mask, REORDERED)
    best = best[: max(0, limit)]
    giver = _giver(index, evidence.words, best, mask)
    if giver is not None:
        best = np.concatenate([best[:_PLACE], [giver.giver], best[_PLACE:][best[_PLACE:] != giver.giver]])[:limit]
    positions = best.tolist()
    links = {} if giver is None else {giver.giver: giver.reason}
    reasons = RankerReasons.of(index, scored.rankings, evidence.matches, links).reasons
    tools = tuple(
        SelectedTool(
            tool=view.catalog.tools[position],
            score=score,
            reasons=tool_reasons,
            core=bool(index.core[position]),
        )
        for position, score, tool_reasons in zip(
            positions, rounded(scores[best]), later(reasons, positions), strict=True
        )
    )
    return Ranked(tools=tools, fit=scored.fit, doubt=scored.doubt)


def _giver(index: CatalogIndex, words: QueryWords, best: Ints, mask: Visible | None) -> Link | None:
    """Returns the link to a tool that finds a value which the best tool needs, unless it is among the first tools anyway. A
    request with an id or a number needs no such tool; the best tool for a request in another language is too uncertain."""
    if words.foreign or len(best) <= _PLACE or any(_NAMES_ID.search(text) for text, _ in words.messages[:1]):
        return None
    first = frozenset(best[: _PLACE + 1].tolist())
    links = index.links().of(int(best[0]), mask)
    return next((link for link in links if link.weight >= _LEAST and link.giver not in first), None)


def reads_words(scorers: tuple[str, ...]) -> bool:
    """Returns True if one of these rankers uses the index of the catalog's words."""
    return not _BY_WORDS.isdisjoint(scorers)


def diverse_order(
    index: CatalogIndex, words: QueryWords, scores: Floats, best: Ints, mask: Visible | None, max_tools: int
) -> Ints:
    """Returns the tools in `best`, which are sorted by score, in an order that covers the whole request (see `diversity`)."""
    postings = postings_of(index.catalog)
    query_terms = postings.query_terms(words, mask)
    worth = worth_of(query_terms, query_terms.scope)
    depth = min(len(best), 2 * max_tools)
    order = spread(
        scores[best], postings.terms_of(best[:depth].tolist()), query_terms.ids, worth, max_tools=max_tools, depth=depth
    )
    return best[order]
