"""Counts the pairs of tools that conversations in the learning log used together. If a request selects one tool of a pair, the
selector raises the score of the other one.

The log is held by an `Experience`. The owner of an entry, a number, is the principal (caller) who made the request, or the
operator's own log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import permutations

from toolcaddie.core.catalog import Catalog
from toolcaddie.learning.entries import CalledTool, ToolLookup
from toolcaddie.learning.experience import OPERATOR_LOG, Experience, Past
from toolcaddie.util.bounded import Bounded

_MOST_OF_ONE = 3
"""The largest number of conversations of one principal that count for a pair."""
_MOST_TOOLS = 16
"""A conversation that used more tools than this is not counted, because two of so many tools may occur together by chance."""
_SELDOM = 2.0
"""Number that is added to the conversations of a tool, so that a pair seen once is not taken for a rule."""
_MOST_PAIRS = 20_000
"""The largest number of pairs of a catalog that are used."""
_MOST_CATALOGS = 8
"""The largest number of catalogs whose pairs are cached."""


class CoUse:
    """Called with a catalog, returns a mapping from pairs of tool names to the share (0 to 1) of the conversations with the first
    tool that also used the second.

    The pairs are counted when a catalog is used for the first time, and again when the `Experience` has made a new search index;
    between these times the same mapping is returned. It contains all pairs; the selector ignores tools that a caller may not
    see. If each principal learns only from its own requests, or the log has requests of several tenants, only the operator's log
    is counted.
    """

    def __init__(self, experience: Experience) -> None:
        self._experience = experience
        self._counted: Bounded[str, tuple[object, Mapping[tuple[str, str], float]]] = Bounded(_MOST_CATALOGS)

    def __call__(self, catalog: Catalog) -> Mapping[tuple[str, str], float]:
        past = self._experience.past()
        counted = self._counted.get(catalog.version)
        if counted is not None and counted[0] is past.index:
            return counted[1]
        pairs = co_used(past, catalog, shared=self._experience.settings.scope == "shared")
        self._counted.put(catalog.version, (past.index, pairs))
        return pairs


def co_used(past: Past, catalog: Catalog, *, shared: bool = True) -> Mapping[tuple[str, str], float]:
    """Returns the 20,000 most frequent pairs: (first, second) -> the share of the conversations with the first tool that also
    used the second; the share is lowered a little if these conversations are few."""
    lookup = ToolLookup(catalog)
    names: dict[CalledTool, str | None] = {}
    for tool in past.tools:
        position = lookup.position(tool)
        names[tool] = None if position is None else catalog.tools[position].name
    conversations: dict[tuple[int, int], set[str]] = defaultdict(set)
    open_to_all = shared and len(set(past.tenants.tolist()) - {OPERATOR_LOG}) <= 1
    for entry in past.entries:
        if entry.owner != OPERATOR_LOG and not open_to_all:
            continue
        conversations[entry.owner, entry.group].update(
            name for tool in entry.tools if (name := names[tool]) is not None
        )
    singles: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    of_one: Counter[tuple[int, str, str]] = Counter()
    for (owner, _), used in conversations.items():
        if len(used) > _MOST_TOOLS:
            continue
        singles.update(used)
        for first, second in permutations(sorted(used), 2):
            of_one[owner, first, second] += 1
            if owner == OPERATOR_LOG or of_one[owner, first, second] <= _MOST_OF_ONE:
                pairs[first, second] += 1
    return {pair: count / (singles[pair[0]] + _SELDOM) for pair, count in pairs.most_common(_MOST_PAIRS)}
