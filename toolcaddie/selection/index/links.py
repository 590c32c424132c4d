"""Relations between the tools of one catalog: one tool (the giver) returns a value that another tool needs.

Freezing a membership needs a `client_id`, and some tool has to find it. The request "freeze John's membership" has no word in
common with the tool that finds John, so this tool is selected because of the relation. Evidence for a relation, the strongest
first: an output schema with the value that the input needs; a description that names the other tool; a matching name
(`get_clients_list` for a `client_id`). Earlier use of both tools together counts by its frequency. Most catalogs have names only.

Names and output schemas are read once for each catalog; the needs of a tool are read when the tool is first among the best.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.tool import Tool
from toolcaddie.ports import Visible
from toolcaddie.selection.index.change import CatalogChange
from toolcaddie.selection.query import split_words, stems_of
from toolcaddie.util.bounded import Bounded

Floats = npt.NDArray[np.float32]
K = TypeVar("K")
V = TypeVar("V")

CoUsed = Mapping[tuple[str, str], float]
"""Share of the first tool's uses, 0 to 1, in which the second was used too."""

_MANY = 64
"""Factor on the number of best tools from which these are found first and then sorted."""

LOOKED_AT = 4
"""The number of best tools whose needs are followed; for a tool that hardly fits, no other tools are sent."""

RAISED = 0.5
"""The largest score of a needed tool, as a share of the score of the tool that needs it, so that the needed tool stays below
tools that fit nearly as well."""

SHARE = 4
"""At most 1 / `SHARE` of `max_tools` is for needed tools."""

UNLIMITED = 6
"""The largest number of needed tools if a budget has no `max_tools`."""

EACH = 2
"""The largest number of givers for one need."""

_BY_SCHEMA = 1.0
"""Weight of a relation that an output schema shows."""
_BY_MENTION = 0.9
"""Weight of a relation that a description shows."""
_BY_NAME = 0.7
"""Weight of a relation that only names show."""
_ONE = 0.5
"""Factor for a giver whose name is in the singular, because such a tool often needs the id itself."""
_BESIDE = 0.6
"""Share of the best weight for a need that a second giver must have."""
_ELSEWHERE = 0.5
"""Factor for a giver from another source, because ids usually belong to one source."""
_LEAST = 0.2
"""The least weight of a relation by names, and the weight of a tool that returns the id of a thing that it makes."""

_MOST_LINKS = 4_096
"""The largest number of tools whose links are cached."""
_MOST_NODES = 200
"""The largest number of nodes of a schema that are read."""

_MARKS = frozenset({"id", "ids", "uuid", "guid", "key", "ref", "slug", "handle"})
"""Words at the end of a parameter that refers to a stored thing."""
_PASSES = frozenset({"token", "session", "cookie"})
"""Things that a login returns, before any other call."""
_FINDS = frozenset(
    """
    get list find search lookup look query fetch show view retrieve resolve read browse all obtain
    """.split()  # noqa: SIM905  a list of words is read as one
)
"""Verbs of tools that return something and change nothing."""
_SEVERAL = frozenset({"list", "find", "search", "lookup", "query", "browse", "all"})
"""Words of tools that find a thing by its properties; other tools that return the thing need its id."""
_MAKES = frozenset({"create", "add", "new", "make", "insert", "register", "post", "open", "start"})
"""Verbs of tools that return the id of a new thing."""
_LOGS_IN = frozenset({"login", "authenticate", "signin"})
"""Verbs of tools that return a token, session or cookie, whatever thing their names end in."""
_ASKS = _FINDS | {"check", "is", "status", "state"}
"""Words of tools that tell whether somebody is logged in (`get_login_status`), and log nobody in."""
_NO_HEAD = frozenset(
    "list all details detail info information by for of the a an my data records record".split()  # noqa: SIM905
)
"""Words that are not the name of a thing."""
_WORD_OF_CODE = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_\-][A-Za-z0-9]+|[A-Z][a-z0-9]+)+")
"""Finds identifiers of several words in a text, such as `get_clients_list` and `listClients`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A relation, seen from the tool that needs a value."""

    giver: int
    """Position of the tool that returns the value."""
    parameter: str
    """Parameter for which the giver returns a value; empty: the two tools were only used together."""
    weight: float
    """Strength of the evidence, 0 to 1."""
    reason: str
    """A reason for people to select the giver: "returns client_id, which freeze_membership needs"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """The thing to which a required parameter refers."""

    parameter: str
    stems: tuple[str, ...]
    """Stems of the thing's name: for `client_id` the stem of "client"."""


_Finders = dict[str, dict[str, tuple[frozenset[str], float]]]
_Returners = dict[tuple[str, ...], dict[str, None]]


class Links:
    """The relations of one catalog. Safe for many threads: two that need the same links at once may both compute them."""

    def __init__(self, catalog: Catalog) -> None:
        self._begin(catalog, {}, {})
        for tool in catalog.tools:
            self._enter(tool, None)

    def changed(self, change: CatalogChange) -> Links:
        """Returns the relations of the catalog after the change; only new tools are read."""
        after = object.__new__(Links)
        after._begin(change.after, dict(self._finders), dict(self._returners))
        own: set[Any] = set()
        for position in change.removed.tolist():
            after._forget(change.before.tools[position], own)
        for position in change.added.tolist():
            after._enter(change.after.tools[position], own)
        return after

    def _begin(self, catalog: Catalog, finders: _Finders, returners: _Returners) -> None:
        """Sets all attributes of a new object. `Links.changed` uses this too, so it is not part of `__init__`."""
        self._catalog = catalog
        self._finders = finders
        """For each thing, the tools that find something and whose names end in the thing. Each tool is stored with the stems of
        its name, and with the weight of this evidence for each stem that is needed. The inner tables may be shared with the
        relations of an earlier catalog, so they are copied before they are changed."""
        self._returners = returners
        """For each thing, the tools whose output contains its id."""
        self._needed: dict[int, tuple[_Need, ...]] = {}
        self._links: Bounded[int, tuple[Link, ...]] = Bounded(_MOST_LINKS)
        self._neighbours: tuple[CoUsed | None, Mapping[str, Sequence[tuple[int, float]]]] = (None, {})

    def needs(self, position: int) -> tuple[str, ...]:
        """Returns the required parameters of a tool that refer to a thing which another tool may have to find."""
        return tuple(need.parameter for need in self._needs(position))

    def of(self, position: int, mask: Visible | None = None, co_used: CoUsed | None = None) -> list[Link]:
        """Returns links to the visible tools that return a value which this tool needs, at most `EACH` for each need, the best
        first."""
        links: dict[int, Link] = {}
        served: dict[str, list[float]] = {}
        for link in self._all(position):
            if (mask is not None and not mask[link.giver]) or link.giver in links:
                continue
            before = served.setdefault(link.parameter, [])
            if not before or (len(before) < EACH and link.weight >= _BESIDE * before[0]):
                before.append(link.weight)
                links[link.giver] = link
        used = self._used_with(position, co_used) if co_used else ()
        for other, weight in [each for each in used if mask is None or mask[each[0]]][:EACH]:
            if other not in links or links[other].weight < weight:
                reason = f"was used together with {self._catalog.tools[position].name}"
                links[other] = Link(giver=other, parameter="", weight=min(1.0, weight), reason=reason)
        return sorted(links.values(), key=lambda link: -link.weight)

    # --- links ---------------------------------------------------------------------------------------------------------

    def _all(self, position: int) -> tuple[Link, ...]:
        """Returns all links of a tool, the best first; `of` selects those that a caller may see."""
        if (cached := self._links.get(position)) is not None:
            return cached
        tool = self._catalog.tools[position]
        links = [link for need in self._needs(position) for link in self._givers(position, tool, need)]
        links.extend(self._mentions(position, tool))
        ordered = tuple(sorted(links, key=lambda link: (-link.weight, link.giver)))
        self._links.put(position, ordered)
        return ordered

    def _givers(self, position: int, tool: Tool, need: _Need) -> Iterator[Link]:
        """Yields links to the tools that return the thing a tool needs: first those whose output schema has its id, then those
        whose names say that they find it. `tool` is at `position`."""
        returners = self._returners.get(need.stems, {})
        for giver in self._serving(returners, position, need):
            reason = f"returns {need.parameter}, which {tool.name} needs"
            # A tool that makes a new thing returns an id too, but most requests are about an existing thing.
            weight = _LEAST if self._makes(giver) else _BY_SCHEMA
            yield Link(giver=giver, parameter=need.parameter, weight=self._near(tool, giver, weight), reason=reason)
        finders = self._finders.get(need.stems[-1], {})
        finder_names = [
            name
            for name, (stems, worth) in finders.items()
            if worth * len(need.stems) >= _LEAST and name not in returners and stems.issuperset(need.stems)
        ]
        for giver in self._serving(finder_names, position, need):
            worth = finders[self._catalog.tools[giver].name][1]
            weight = self._near(tool, giver, worth * len(need.stems))
            if weight >= _LEAST:
                reason = f"may find {need.parameter}, which {tool.name} needs"
                yield Link(giver=giver, parameter=need.parameter, weight=weight, reason=reason)

    def _mentions(self, position: int, tool: Tool) -> Iterator[Link]:
        """Yields links to tools that the texts of this tool name: "the id as get_clients_list returns it"."""
        texts = [tool.description, *_descriptions(tool.input_schema)]
        needs = self._needs(position)
        for name in dict.fromkeys(word for text in texts for word in _WORD_OF_CODE.findall(text[:4_000])):
            giver = self._catalog.position(name)
            if giver is not None and giver != position and self._finds(giver):
                stems = {_stem_of(word) for word in split_words(name)}
                parameter = next((need.parameter for need in needs if stems.issuperset(need.stems)), "")
                reason = f"is named by {tool.name}" + (f" for its {parameter}" if parameter else "")
                yield Link(giver=giver, parameter=parameter or name, weight=_BY_MENTION, reason=reason)

    def _serving(self, names: Iterable[str], position: int, need: _Need) -> Iterator[int]:
        """Yields the tools with these names, without the tool itself and without tools that need the same thing."""
        for name in names:
            giver = self._catalog.position(name)
            if giver is None or giver == position:
                continue
            if all(other.stems != need.stems for other in self._needs(giver)):
                yield giver

    def _near(self, tool: Tool, giver: int, weight: float) -> float:
        """Returns the weight of a link: lower if the giver belongs to another source than the tool, and slightly higher if both
        are in one category."""
        other = self._catalog.tools[giver]
        if other.source != tool.source:
            return weight * _ELSEWHERE
        return weight * (1.05 if other.category is not None and other.category == tool.category else 1.0)

    def _finds(self, giver: int) -> bool:
        """Returns True if this tool finds things, by its name or because it only reads."""
        tool = self._catalog.tools[giver]
        return tool.annotations.read_only is True or not _FINDS.isdisjoint(split_words(tool.name))

    def _makes(self, giver: int) -> bool:
        """Returns True if this tool makes new things, by its name."""
        tool = self._catalog.tools[giver]
        return tool.annotations.read_only is not True and not _MAKES.isdisjoint(split_words(tool.name))

    def _used_with(self, position: int, co_used: CoUsed) -> Sequence[tuple[int, float]]:
        """Returns the tools that were used together with the tool at this position, each with its share."""
        last_co_used, neighbours = self._neighbours
        if last_co_used is not co_used:
            neighbours = self._read(co_used)
            self._neighbours = co_used, neighbours
        return neighbours.get(self._catalog.tools[position].name, ())

    def _read(self, co_used: CoUsed) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Returns the tools used together with each tool, by its name: their positions and shares, the highest share first."""
        neighbours: dict[str, list[tuple[int, float]]] = {}
        for (one, other), weight in co_used.items():
            place = self._catalog.position(other)
            if place is not None and one != other and weight > 0:
                neighbours.setdefault(one, []).append((place, float(weight)))
        return {name: sorted(others, key=lambda each: -each[1]) for name, others in neighbours.items()}

    # --- reading tools --------------------------------------------------------------------------------------------------

    def _enter(self, tool: Tool, own: set[Any] | None) -> None:
        """Adds a tool to the tables of finders and returners. `own`: the keys whose inner tables were copied already; None: no
        inner table is shared."""
        words = split_words(tool.name)
        for thing, evidence in self._finds_by_name(words).items():
            _owned(self._finders, thing, own)[tool.name] = evidence
        for stems in self._outputs(tool, words):
            _owned(self._returners, stems, own)[tool.name] = None

    def _forget(self, tool: Tool, own: set[Any]) -> None:
        """Removes a tool from the tables of finders and returners. `own`: the keys whose inner tables were copied already."""
        words = split_words(tool.name)
        for thing in self._finds_by_name(words):
            _without(self._finders, thing, tool.name, own)
        for stems in self._outputs(tool, words):
            _without(self._returners, stems, tool.name, own)

    def _finds_by_name(self, words: Sequence[str]) -> dict[str, tuple[frozenset[str], float]]:
        """Returns the thing that a tool finds by its name: `get_clients_list` and `listClients` find a client."""
        things: dict[str, tuple[frozenset[str], float]] = {}
        if not _LOGS_IN.isdisjoint(words) and _ASKS.isdisjoint(words):
            passes = map(_stem_of, sorted(_PASSES))
            things.update((thing, (frozenset({thing}), _BY_NAME)) for thing in passes)
        nouns = [word for word in words if word not in _FINDS and word not in _NO_HEAD]
        if nouns and not _FINDS.isdisjoint(words):
            last = nouns[-1]
            several = last in _PASSES or (last.endswith("s") and not last.endswith("ss"))
            certainty = 1.0 if several or not _SEVERAL.isdisjoint(words) else _ONE
            things[_stem_of(last)] = frozenset(map(_stem_of, nouns)), _BY_NAME * certainty / len(nouns)
        return things

    def _needs(self, position: int) -> tuple[_Need, ...]:
        if (needs := self._needed.get(position)) is None:
            needs = self._needed[position] = tuple(self._read_needs(self._catalog.tools[position]))
        return needs

    def _read_needs(self, tool: Tool) -> Iterator[_Need]:
        """Yields the things to which the required parameters of a tool refer."""
        for name in _required(tool.input_schema):
            thing = _thing(name)
            if thing == ():  # a bare "id" refers to the thing in the tool's name
                words = [word for word in split_words(tool.name) if word not in _FINDS and word not in _NO_HEAD]
                thing = tuple(words[1:] if len(words) > 1 else words)
            if thing:
                yield _Need(parameter=name, stems=tuple(_stem_of(word) for word in thing))

    def _outputs(self, tool: Tool, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yields the things whose ids a tool's output contains. For a membership, that is `membership_id` anywhere, or `id` in an
        object called membership."""
        if tool.output_schema is None:
            return
        about = [word for word in words if word not in _FINDS and word not in _NO_HEAD][-1:]
        things: dict[tuple[str, ...], None] = {}
        for owner, name in _properties(tool.output_schema):
            thing = _thing(name)
            if thing == ():
                thing = tuple(split_words(owner)) or tuple(about)
            if thing:
                things[tuple(_stem_of(word) for word in thing)] = None
        yield from things


@lru_cache(maxsize=16_384)
def _stem_of(word: str) -> str:
    """Returns the English stem: identifiers are English, whatever the language of the descriptions."""
    return stems_of([word], ("english",))[0][0]


def _owned(table: dict[K, dict[str, V]], key: K, own: set[Any] | None) -> dict[str, V]:
    """Returns the inner table under a key, ready to be changed. It may be shared with an earlier catalog, so it is copied first,
    unless its key is in `own`, the keys that were copied already. None: no inner table is shared."""
    if own is not None and key not in own:
        own.add(key)
        table[key] = dict(table.get(key, {}))
    return table.setdefault(key, {})


def _without(table: dict[K, dict[str, V]], key: K, name: str, own: set[Any]) -> None:
    part = _owned(table, key, own)
    part.pop(name, None)
    if not part:  # otherwise the key would stay after the last tool is gone
        del table[key]


def lifted(
    scores: Floats,
    eligible: Visible,
    best: Sequence[int],
    candidates: Floats,
    links: Links,
    *,
    max_tools: int | None,
    mask: Visible | None = None,
    co_used: CoUsed | None = None,
) -> tuple[Floats, dict[int, str]]:
    """Returns the scores with those of needed tools raised, and the reasons for the raised tools by position.

    `best`: positions of the best tools, whose needs are followed, the best first; they may include tools that were sent before.
    `candidates`: the scores of the tools that compete for the budget. `max_tools`: the limit of the budget; None: no limit. The
    last 1 / `SHARE` of these places is for needed tools: a raised tool scores less than the tool that needs it, and less than the
    tools in the places before. The needs of needed tools are followed too, but no further.
    """
    share = UNLIMITED if max_tools is None else max_tools // SHARE
    needed: dict[int, tuple[float, str]] = {}
    frontier = [(position, float(scores[position])) for position in best[:LOOKED_AT]]
    for _ in range(2):
        reached = []
        for position, score in frontier:
            for link in links.of(position, mask, co_used):
                raised = RAISED * link.weight * score
                if eligible[link.giver] and raised > max(
                    float(scores[link.giver]), needed.get(link.giver, (0.0, ""))[0]
                ):
                    needed[link.giver] = raised, link.reason
                    reached.append((link.giver, raised))
        frontier = reached
    if not needed or not share:
        return scores, {}
    best_needed = sorted(needed.items(), key=lambda each: -each[1][0])[:share]
    ceiling = np.inf
    if max_tools is not None:
        ahead = max_tools - share
        if ahead and len(candidates) > ahead:
            ceiling = float(np.partition(candidates, len(candidates) - ahead)[len(candidates) - ahead])
    raised_scores = scores.copy()
    reasons = {}
    for position, (score, reason) in best_needed:
        new = min(score, ceiling * 0.999)
        if new > scores[position]:
            raised_scores[position] = new
            reasons[position] = reason
    return raised_scores, reasons


def best_positions(scores: Floats, most: int) -> list[int]:
    """Returns the positions of at most `most` tools with the highest scores, the best first, without tools of score 0."""
    for least in (0.5 * scores.max(initial=0.0), 0.0):  # few tools are that good, which saves looking at all
        near = np.flatnonzero(scores > least)
        if len(near) >= most:
            break
    if len(near) > _MANY * most:  # sorting thousands takes longer than finding the first few
        values = scores[near]
        near = near[values >= np.partition(values, len(near) - most)[len(near) - most]]
    best: list[int] = near[np.argsort(-scores[near], kind="stable")][:most].tolist()
    return best


def _thing(parameter: str) -> tuple[str, ...] | None:
    """Returns the words of the thing to which a parameter refers; empty for a bare id; None if it refers to no stored thing."""
    words = split_words(parameter)
    if words and words[-1] in _MARKS:
        return tuple(words[:-1])
    return (words[-1],) if words and words[-1] in _PASSES else None


def _required(schema: Any) -> list[str]:
    """Returns the names of the required parameters, including those within required objects."""
    names: list[str] = []
    level = [schema]
    for _ in range(2):
        deeper = []
        for node in level:
            required = node.get("required") if isinstance(node, Mapping) else None
            if not isinstance(required, list | tuple):
                continue
            properties = node.get("properties")
            for name in required[:_MOST_NODES]:
                if isinstance(name, str):
                    names.append(name)
                    if isinstance(properties, Mapping) and isinstance(properties.get(name), Mapping):
                        deeper.append(properties[name])
        level = deeper
    return list(dict.fromkeys(names))


def _properties(schema: Any) -> Iterator[tuple[str, str]]:
    """Yields the properties of an output schema, outer ones first, as pairs: the name of the enclosing object, and the name of
    the property. A list counts as its items."""
    level: list[tuple[str, Any]] = [("", schema)]
    nodes = 0
    while level:
        deeper: list[tuple[str, Any]] = []
        for owner, node in level:
            nodes += 1
            if nodes > _MOST_NODES or not isinstance(node, Mapping):
                continue
            properties = node.get("properties")
            for name, inner in properties.items() if isinstance(properties, Mapping) else ():
                yield owner, str(name)
                deeper.append((str(name), inner))
            deeper.append((owner, node.get("items")))
            for key in ("anyOf", "oneOf", "allOf"):
                arms = node.get(key)
                deeper.extend((owner, arm) for arm in arms) if isinstance(arms, list | tuple) else None
        level = [each for each in deeper if each[1] is not None]


def _descriptions(schema: Any) -> Iterator[str]:
    """Yields the descriptions of required parameters; no tool has to find the values of optional parameters."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return
    for name in _required(schema):
        inner = properties.get(name)
        if isinstance(inner, Mapping) and isinstance(inner.get("description"), str):
            yield inner["description"]
