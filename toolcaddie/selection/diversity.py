"""Orders the best tools so that they cover the whole request, not only the part of it that many tools serve.

For "weather in Paris and convert 100 EUR to USD", fifteen weather tools may have nearly equal scores, and one tool converts.
After the first few, tools are ordered by their score and by the part of the request whose words no earlier tool has. This is
maximal marginal relevance (Carbonell and Goldstein, 1998), with the words of the request as the measure of novelty (as in xQuAD,
Santos et al., 2010).

Tools that have nearly the same words are twins: tools of one server that is mounted twice, or of a generated catalog. Only a few
twins come before other tools, unless the request has words that only one of them has.

Without twins, the first `KEPT` tools keep their order, so recall in the first five does not change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from toolcaddie.selection.index.inverted import Table
from toolcaddie.selection.index.postings import QueryTerms, Scope

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]

KEPT = 5
"""The number of first tools that are not reordered for the words of the request."""

DEPTH = 20
"""The number of best tools that are considered."""

REORDERED = 10
"""The number of tools that are reordered if there is no `max_tools`; the tools after them keep their order."""

NEW = 1.0
"""Weight of the part of the request that no earlier tool covers; a tool's score relative to the best score has weight 1."""

WEAK = 0.2
"""Share of the best score below which a tool is not raised, because it has the words of the request by chance."""

TWINS = 3
"""The largest number of twins that come before other tools."""

ALIKE = 0.8
"""The least Jaccard similarity of the words of two tools that makes them twins."""

_BUCKETS = 1_024
"""The number of buckets into which words are hashed to compare tools."""


def spread(
    scores: Floats,
    terms: Table,
    query_terms: Longs,
    worth: Floats,
    *,
    max_tools: int = REORDERED,
    depth: int = DEPTH,
    twins: int = TWINS,
) -> Longs:
    """Returns the indexes of tools in the order in which to serve them. The tools are sorted by `scores`, the best first.

    `terms` has a row for each tool, with the numbers of its words. `query_terms` are the numbers of the request's words, and
    `worth` is the worth of each of these (rarity times weight; 0 for a stop word). Only the first `depth` tools are reordered,
    until `max_tools` places are filled: for a budget of 24, the 24 are taken from the best 48. `twins`: the largest number of
    twins that come before other tools.
    """
    order = np.arange(len(scores))
    depth = min(depth, len(scores))
    if depth <= 1 or scores[0] <= 0:
        return order
    rows = np.arange(depth).repeat(np.diff(terms.starts[: depth + 1]))
    words = terms.columns[: terms.starts[depth]]
    holds, alike = _holding(rows, words, depth, query_terms), _alike(rows, words, depth)
    total = float(worth.sum())
    uncovered = worth / total if total > 0 else np.zeros(len(worth), dtype=np.float32)
    served: list[int] = []
    if not (alike.sum(axis=1) >= twins).any():
        served.extend(range(min(KEPT, depth)))
        uncovered = np.where(holds[:KEPT].any(axis=0), 0.0, uncovered)
        if not (holds[KEPT:] @ uncovered).any():
            return order
    relative = scores[:depth] / scores[0]
    strong = relative >= WEAK
    waiting = np.ones(depth, dtype=np.bool_)
    waiting[served] = False
    twins_before = alike[:, served].sum(axis=1)
    while len(served) < min(max_tools, depth):
        new = holds @ uncovered
        if len(served) >= KEPT and not (new * waiting).any() and not (waiting & (twins_before >= twins)).any():
            break  # no remaining tool covers anything new, and no twin is held back
        value = relative + NEW * new * strong if len(served) >= KEPT else relative
        free = waiting & ((twins_before < twins) | (new > 0))
        # Twins are held back only while another tool fits.
        place = int(np.where(free if (free & strong).any() else waiting, value, -1.0).argmax())
        served.append(place)
        waiting[place] = False
        twins_before += alike[place]
        uncovered = np.where(holds[place], 0.0, uncovered)
    order[:depth] = [*served, *np.flatnonzero(waiting).tolist()]
    return order


def worth_of(query_terms: QueryTerms, scope: Scope) -> Floats:
    """Returns the worth of each word of a request that the catalog has: the word's weight in the request times its rarity among
    the visible tools; 0 for a stop word, and for a word that only hidden or removed tools have."""
    worth: Floats = query_terms.weights * scope.rarity[query_terms.ids] * query_terms.content * query_terms.visible
    return worth


def _holding(rows: Longs, words: npt.NDArray[np.integer[Any]], depth: int, query_terms: Longs) -> Floats:
    """Returns 1 where a tool (row) has a word of the request (column), else 0."""
    distinct, column_of = np.unique(query_terms, return_inverse=True)
    holds = np.zeros((depth, len(distinct)), dtype=np.float32)
    if len(distinct):
        column = np.minimum(np.searchsorted(distinct, words), len(distinct) - 1)
        hits = distinct[column] == words
        holds[rows[hits], column[hits]] = 1.0
    return holds[:, column_of]


def _alike(rows: Longs, words: npt.NDArray[np.integer[Any]], depth: int) -> npt.NDArray[np.bool_]:
    """Returns a matrix of the first `depth` tools: True where two tools are twins; a tool is not a twin of itself. Words are
    hashed into buckets."""
    has = np.zeros((depth, _BUCKETS), dtype=np.float32)
    has[rows, words % _BUCKETS] = 1.0
    both = has @ has.T
    size = both.diagonal()
    alike: npt.NDArray[np.bool_] = both >= np.maximum(1.0, ALIKE * (size[:, None] + size[None, :] - both))
    np.fill_diagonal(alike, False)
    return alike
