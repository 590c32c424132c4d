"""Ranking by words: BM25 over weighted fields (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009).

Postings are numpy arrays, so a query costs a few additions whatever the catalog's size. How rare a word is, is counted
among the visible tools of the request alone: a score tells nothing about a tool that its reader may not see.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.catalog import Catalog, Mask
from toolcaddie.ports import QueryWords, Ranker
from toolcaddie.selection.document import FIELDS, catalog_languages, document
from toolcaddie.selection.query import query_terms, stems_of
from toolcaddie.selection.remembered import Remembered
from toolcaddie.selection.stopwords import Language
from toolcaddie.tool_types import Tool

K1 = 1.5

_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hit:
    """A query term the catalog knows: where it stands, how strongly in each tool, and what it is worth."""

    word: str
    positions: npt.NDArray[np.int32]
    strengths: npt.NDArray[np.float32]
    worth: float


class Bm25:
    """Postings of one catalog."""

    name = "bm25"

    def __init__(self, catalog: Catalog) -> None:
        self._size = len(catalog)
        self._languages = catalog_languages(catalog)
        self._postings = _postings(catalog, self._languages)
        self._last = Remembered[list[_Hit]]()

    def scores(self, words: QueryWords, mask: Mask | None) -> npt.NDArray[np.float32]:
        """BM25F of every tool, 0 where no word of the query stands or the tool is hidden."""
        scores = np.zeros(self._size, dtype=np.float32)
        for hit in self._last.keep(words, self._hits(words, mask)):
            scores[hit.positions] += hit.strengths * np.float32(hit.worth)
        if mask is not None:
            scores[~mask] = 0.0
        return scores

    def reasons(self, words: QueryWords, position: int) -> tuple[str, ...]:
        """The words of the query that stand in the tool, the weightiest first, as the scores just counted them."""
        found = []
        for hit in self._last.of(words) or ():
            at = bisect_left(hit.positions.data, position)
            if at < len(hit.positions) and hit.positions[at] == position:
                found.append((-float(hit.strengths[at]) * hit.worth, hit.word))
        if not found:
            return ()
        return (f"words: {', '.join(word for _, word in sorted(found)[:_SHOWN])}",)

    def _hits(self, words: QueryWords, mask: Mask | None) -> list[_Hit]:
        visible = self._size if mask is None else int(mask.sum())
        hits = []
        for term in query_terms(words, self._languages):
            for stem in term.stems:
                posting = self._postings.get(stem)
                if posting is None:
                    continue
                positions, strengths = posting
                having = len(positions) if mask is None else int(np.count_nonzero(mask[positions]))
                worth = term.weight / len(term.stems) * math.log1p((visible - having + 0.5) / (having + 0.5))
                hits.append(_Hit(word=term.word, positions=positions, strengths=strengths, worth=worth))
        return hits


def factory(catalog: Catalog) -> Ranker:
    return Bm25(catalog)


Posting = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]


def _postings(catalog: Catalog, languages: tuple[Language, ...]) -> dict[str, Posting]:
    gathered: dict[str, tuple[list[int], list[float]]] = {}
    for position, tool in enumerate(catalog.tools):
        for stem, strength in _strengths(tool, catalog, languages).items():
            positions, strengths = gathered.setdefault(stem, ([], []))
            positions.append(position)
            strengths.append(strength)
    return {
        stem: (np.array(positions, dtype=np.int32), np.array(strengths, dtype=np.float32))
        for stem, (positions, strengths) in gathered.items()
    }


def _strengths(tool: Tool, catalog: Catalog, languages: tuple[Language, ...]) -> dict[str, float]:
    """Each stem of a tool with its saturated weight: fields added up first, saturation after (BM25F)."""
    weights: dict[str, float] = {}
    words = document(tool, catalog)
    for field in FIELDS:
        if not (found := words[field.name]):
            continue
        scale = field.weight / (1 - field.slope + field.slope * len(found) / field.pivot)
        for stems, count in Counter(stems_of(found, languages)).items():
            for stem in stems:
                weights[stem] = weights.get(stem, 0.0) + scale * count
    return {stem: weight * (K1 + 1) / (weight + K1) for stem, weight in weights.items()}
