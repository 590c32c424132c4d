"""Every tool there is at one moment, and the part of it that one principal may see.

A `Catalog` never changes: a changed set of tools is another catalog with another `version`. A `View` is a mask over it, so
giving each request its own costs one array, whatever the size.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress, count
from operator import is_not

import numpy as np
import numpy.typing as npt

from toolcaddie.core.errors import CatalogError, DuplicateToolError
from toolcaddie.core.schema import canonical_json, check_schema
from toolcaddie.core.tool import Tool

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]
"""Of each tool the SHA-256 of its canonical JSON: four numbers a row."""

_CATALOGS = 8
"""Catalogs whose categories are kept ready."""

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A named group of tools, as data: adding one never needs code."""

    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    """Categories that come along when this one matched."""
    core: bool = False
    """Its tools are sent with every request."""
    default: bool = False
    """Taken when nothing matched."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Catalog:
    """All tools and categories, in their order. Make one with `Catalog.of`; equality is identity, `version` is content."""

    tools: tuple[Tool, ...]
    categories: tuple[Category, ...]
    version: str
    _described: int = field(repr=False)
    """How many of the categories were given; the others are bare names that tools brought."""
    _positions: Mapping[str, int] = field(repr=False)
    _category_at: Mapping[str, int] = field(repr=False)
    _category_of: Positions = field(repr=False)
    _members: Positions = field(repr=False)
    """Positions grouped by category; of category c those at `_starts[c + 1] : _starts[c + 2]`, first those without one."""
    _starts: Positions = field(repr=False)
    _digests: Digests = field(repr=False)

    @classmethod
    def of(
        cls,
        tools: Iterable[Tool],
        categories: Iterable[Category] = (),
        *,
        check_schemas: bool = True,
        before: Catalog | None = None,
    ) -> Catalog:
        """Check and index tools and categories.

        `check_schemas=False` is for tools we never run ourselves: their names and schemas are for the provider to judge.
        Raises `DuplicateToolError` (both sources named) and `CatalogError` (a bad name or schema, a category twice).
        A tool in a category nobody described gets a category of that bare name, after the described ones.

        `before` saves work and changes nothing else: a `Tool` that is an object of that catalog too was checked and
        digested there. Where few tools differ, 25,000 of them take 2 ms.
        """
        tools = tuple(tools)
        described: dict[str, Category] = {}
        for place, category in enumerate(categories):
            if not isinstance(category, Category):
                raise CatalogError(f"categories[{place}] is {category!r:.80}; write Category(name='members')")
            if category.name in described:
                raise CatalogError(f"category {category.name!r} is defined twice; merge the two definitions")
            described[category.name] = category
        if before is None:
            before, origin = _EMPTY, np.full(len(tools), -1, dtype=np.int64)
        else:
            origin = _origin(before, tools)
        return cls._after(before, origin, tools, described, check_schemas=check_schemas)

    @classmethod
    def _after(
        cls,
        before: Catalog,
        origin: Positions,
        tools: tuple[Tool, ...],
        described: Mapping[str, Category],
        *,
        check_schemas: bool,
    ) -> Catalog:
        """`origin`: of each tool where the same object stands in `before`, -1 for one that is new."""
        new = np.flatnonzero(origin < 0).tolist()
        for position in new:
            if not isinstance(tools[position], Tool):
                raise CatalogError(
                    f"tools[{position}] is a {type(tools[position]).__name__} and no Tool; functions become tools in a "
                    "FunctionSource, definitions in Picker.of"
                )
            check_tool(tools[position], schemas=check_schemas)
        positions = _positions(tools, origin, before)
        named, category_of = _categorised(tools, tuple(described), origin, before)
        whole = tuple(described.get(name) or before._bare(name) for name in named)
        digests = before._digests[origin] if len(before) else np.empty((len(tools), 4), dtype=np.uint64)
        for position in new:
            digests[position] = np.frombuffer(_digest(tools[position]), dtype=np.uint64)
        return cls(
            tools=tools,
            categories=whole,
            version=_version(digests, whole),
            _described=len(described),
            _positions=positions,
            _category_at={name: at for at, name in enumerate(named)},
            _category_of=category_of,
            _members=np.argsort(category_of, kind="stable"),
            _starts=np.cumsum(np.bincount(category_of + 2, minlength=len(named) + 2)),
            _digests=digests,
        )

    def with_tools(
        self, added: Iterable[Tool] = (), *, removed: Iterable[str] = (), check_schemas: bool = True
    ) -> Catalog:
        """The same but for some tools: what `Catalog.of` would make of them all, for the price of those that change.

        An added tool takes the place of the removed one of its name; all others come last. Raises as `of` does, and
        `CatalogError` where there is no tool to remove.
        """
        added = tuple(added)
        incoming = {tool.name: tool for tool in added}
        gone = {name: self._positions.get(name) for name in removed}
        if unknown := [name for name, position in gone.items() if position is None]:
            raise CatalogError(f"the catalog has no tool {unknown[0]!r} to remove; it may have gone already")
        leaving = sorted(position for position in gone.values() if position is not None)
        replaced = [position for position in leaving if self.tools[position].name in incoming]
        origin = np.arange(len(self))
        origin[replaced] = -1
        stays = np.ones(len(self), dtype=np.bool_)
        stays[sorted({*leaving} - {*replaced})] = False
        tools: Sequence[Tool] = self.tools
        if replaced:
            tools = list(tools)
            for position in replaced:
                tools[position] = incoming[tools[position].name]
        last = [tool for tool in added if tool.name not in gone or incoming[tool.name] is not tool]
        origin = np.concatenate([origin[stays], np.full(len(last), -1)])
        whole = (*compress(tools, stays.tolist()), *last)
        described = {category.name: category for category in self.categories[: self._described]}
        return Catalog._after(self, origin, whole, described, check_schemas=check_schemas)

    def _bare(self, name: str) -> Category:
        """A category nobody described: its own name is the one word it is known by."""
        at = self._category_at.get(name, -1)
        if at >= self._described:
            return self.categories[at]
        return Category(name=name, keywords=(re.sub(r"[_\-.]+", " ", name).strip().lower(),))

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def position(self, name: str) -> int | None:
        return self._positions.get(name)

    def get(self, name: str) -> Tool | None:
        position = self._positions.get(name)
        return None if position is None else self.tools[position]

    def category(self, name: str) -> Category | None:
        at = self._category_at.get(name)
        return None if at is None else self.categories[at]

    @property
    def category_of(self) -> Positions:
        """Of each tool the place of its category among `categories`, -1 for none; not to be written to."""
        return self._category_of

    def members(self, category: int) -> Positions:
        """Positions of the tools of the category at this place, in catalog order; not to be written to."""
        return self._members[self._starts[category + 1] : self._starts[category + 2]]

    def places(self) -> Positions:
        """How many tools of its category stand before each tool."""
        places = np.empty(len(self), dtype=np.int64)
        places[self._members] = np.arange(len(self)) - self._starts[self._category_of[self._members] + 1]
        return places

    def positions_in(self, category: str) -> tuple[int, ...]:
        """Positions of a category's tools, in catalog order; empty for an unknown one."""
        at = self._category_at.get(category)
        return () if at is None else tuple(self.members(at).tolist())

    def is_core(self, tool: Tool) -> bool:
        """Whether a tool is sent always, by itself or by its category."""
        if tool.core:
            return True
        category = self.category(tool.category) if tool.category else None
        return category is not None and category.core


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CatalogChange:
    """How one catalog came of another, for what is worked out per tool and need not be worked out again."""

    before: Catalog
    after: Catalog
    origin: Positions
    """Of each tool in `after` its position in `before`, -1: it is new, or what is said of its category is."""
    added: Positions
    """Positions in `after` of the tools that are new."""
    removed: Positions
    """Positions in `before` of the tools that are gone."""

    @classmethod
    def between(cls, before: Catalog, after: Catalog) -> CatalogChange:
        """Compares contents: tools made anew with the same words are the same."""
        origin = _aligned(before._digests, after._digests)
        changed = [
            at
            for at, category in enumerate(after.categories)
            if (known := before.category(category.name)) is None or (known is not category and known != category)
        ]
        for at in changed:
            origin[after.members(at)] = -1
        added, stays = origin < 0, np.zeros(len(before), dtype=np.bool_)
        stays[origin[~added]] = True
        return cls(
            before=before, after=after, origin=origin, added=np.flatnonzero(added), removed=np.flatnonzero(~stays)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """What one principal may see of a catalog. `mask[i]` is whether tool i is visible; None: all are."""

    catalog: Catalog
    mask: Mask | None = None

    def __len__(self) -> int:
        return len(self.catalog) if self.mask is None else int(self.mask.sum())

    def __iter__(self) -> Iterator[Tool]:
        if self.mask is None:
            return iter(self.catalog.tools)
        return (self.catalog.tools[i] for i in np.flatnonzero(self.mask))

    def sees(self, position: int) -> bool:
        return self.mask is None or bool(self.mask[position])

    def get(self, name: str) -> Tool | None:
        """The tool of that name if it is visible."""
        position = self.catalog.position(name)
        return self.catalog.tools[position] if position is not None and self.sees(position) else None

    def positions_in(self, category: str) -> tuple[int, ...]:
        """Visible positions of a category, in catalog order."""
        found = self.catalog.positions_in(category)
        return found if self.mask is None else tuple(i for i in found if self.mask[i])

    def category_names(self) -> tuple[str, ...]:
        """Categories with at least one visible tool that is not sent anyway, in catalog order."""
        ordinary, names = _ordinary(self.catalog)
        if self.mask is None:
            return names
        return _named(self.catalog, ordinary & self.mask)

    def narrowed(self, mask: Mask) -> View:
        """The view that also needs `mask`."""
        return View(catalog=self.catalog, mask=mask if self.mask is None else self.mask & mask)


@lru_cache(maxsize=_CATALOGS)
def _ordinary(catalog: Catalog) -> tuple[Mask, tuple[str, ...]]:
    """Which tools are not sent anyway, and the names of their categories: every request asks."""
    ordinary = np.array(
        [tool.category is not None and not catalog.is_core(tool) for tool in catalog.tools], dtype=np.bool_
    )
    return ordinary, _named(catalog, ordinary)


def _named(catalog: Catalog, which: Mask) -> tuple[str, ...]:
    """Names of the categories of these tools, in catalog order."""
    return tuple(catalog.categories[at].name for at in np.unique(catalog.category_of[which]).tolist())


def check_tool(tool: Tool, *, schemas: bool = True) -> None:
    """Raise `CatalogError`, naming source and tool, unless the definition can be sent to a provider."""
    what = f"tool {tool.name!r} of source {tool.source!r}"
    if not schemas:
        if not tool.name:
            raise CatalogError(f"{what}: a tool needs a name")
        return
    if not isinstance(tool.name, str) or not _TOOL_NAME.match(tool.name):
        raise CatalogError(f"{what}: a name is 1 to 64 letters, digits, '_' or '-'; rename it")
    check_schema(tool.input_schema, what=what)
    if tool.output_schema is not None:
        check_schema(tool.output_schema, what=f"{what}, output")


def _version(digests: Digests, categories: tuple[Category, ...]) -> str:
    whole = hashlib.sha256(digests.data)
    try:
        whole.update(canonical_json(categories))
    except (TypeError, ValueError, RecursionError):
        for category in categories:
            _digest(category)  # says which one
        raise
    return whole.hexdigest()


def _digest(item: Tool | Category) -> bytes:
    try:
        return hashlib.sha256(canonical_json(item)).digest()
    except (TypeError, ValueError, RecursionError) as error:
        what = f"{type(item).__name__.lower()} {item.name!r}"
        raise CatalogError(f"{what}: the definition is no JSON: {str(error)[:300]}") from error


# --- from one catalog to the next: all but the loops over what is new is done by the array, not by the tool ------------------


def _origin(before: Catalog, tools: Sequence[Tool]) -> Positions:
    """The position in `before` of every tool that is an object of it, -1 for the others."""
    old = before.tools
    most = min(len(old), len(tools))
    head = next(compress(count(), map(is_not, old, tools)), most)
    tail = min(next(compress(count(), map(is_not, reversed(old), reversed(tools))), most), most - head)
    middle = [
        at if (at := before._positions.get(tool.name, -1)) >= 0 and old[at] is tool else -1
        for tool in tools[head : len(tools) - tail]
    ]
    return np.concatenate([np.arange(head), np.array(middle, dtype=np.int64), np.arange(len(old) - tail, len(old))])


def _positions(tools: Sequence[Tool], origin: Positions, before: Catalog) -> dict[str, int]:
    """Where each name stands; `DuplicateToolError` for one that stands twice."""
    stays = np.zeros(len(before), dtype=np.bool_)
    stays[origin[origin >= 0]] = True
    moved = np.flatnonzero(origin != np.arange(len(origin)))
    head = int(moved[0]) if len(moved) else len(tools)
    positions = dict(before._positions)
    for gone in np.flatnonzero(~stays).tolist():
        del positions[before.tools[gone].name]
    positions.update(zip([tool.name for tool in tools[head:]], range(head, len(tools)), strict=True))
    if len(positions) < len(tools):
        _refuse_double(tools)
    return positions


def _refuse_double(tools: Sequence[Tool]) -> None:
    first: dict[str, int] = {}
    for position, tool in enumerate(tools):
        earlier = first.setdefault(tool.name, position)
        if earlier != position:
            raise DuplicateToolError(
                f"tool {tool.name!r} comes from source {tools[earlier].source!r} and again from source "
                f"{tool.source!r}; rename one or leave one source out"
            )


def _categorised(
    tools: Sequence[Tool], described: Sequence[str], origin: Positions, before: Catalog
) -> tuple[tuple[str, ...], Positions]:
    """The names of the categories, the described ones first and then the bare ones as they come; and each tool's."""
    numbers = {name: number for number, name in enumerate(described)}
    known = [numbers.setdefault(category.name, len(numbers)) for category in before.categories]
    numbered = np.array([*known, -1], dtype=np.int64)  # the last place is index -1: no category
    codes = numbered[before._category_of[origin]] if len(before) else np.full(len(tools), -1, dtype=np.int64)
    for position in np.flatnonzero(origin < 0).tolist():
        category = tools[position].category
        codes[position] = -1 if category is None else numbers.setdefault(category, len(numbers))
    first = np.full(len(numbers) + 1, len(tools), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(tools))[::-1]  # of many the last is kept: the first tool
    first[: len(described)] = -1
    order = np.argsort(first[:-1], kind="stable")
    order = order[first[order] < len(tools)]
    places = np.full(len(numbers) + 1, -1, dtype=np.int64)
    places[order] = np.arange(len(order))
    names = tuple(numbers)
    return tuple(names[number] for number in order.tolist()), places[codes]


def _aligned(old: Digests, new: Digests) -> Positions:
    """The row of `old` that each row of `new` is equal to, -1 for none. Most often only a stretch in the middle differs."""
    most = min(len(old), len(new))
    differ = _unlike(old[:most], new[:most])
    head = int(differ[0]) if len(differ) else most
    differ = _unlike(old[len(old) - most :], new[len(new) - most :])
    tail = min(most - 1 - int(differ[-1]) if len(differ) else most, most - head)
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    middle = np.full(len(right), -1, dtype=np.int64)
    if len(left):
        order = np.argsort(left[:, 0])
        at = order[np.minimum(np.searchsorted(left[:, 0], right[:, 0], sorter=order), len(left) - 1)]
        same = (left[at] == right).all(axis=1)
        middle[same] = at[same] + head
    return np.concatenate([np.arange(head), middle, np.arange(len(old) - tail, len(old))])


def _unlike(one: Digests, other: Digests) -> Positions:
    """The rows that differ. Half of a SHA-256 tells two definitions apart, and in half the time."""
    return np.flatnonzero((one[:, 0] != other[:, 0]) | (one[:, 1] != other[:, 1]))


_EMPTY = Catalog(
    tools=(),
    categories=(),
    version="",
    _described=0,
    _positions={},
    _category_at={},
    _category_of=np.empty(0, dtype=np.int64),
    _members=np.empty(0, dtype=np.int64),
    _starts=np.zeros(2, dtype=np.int64),
    _digests=np.empty((0, 4), dtype=np.uint64),
)
