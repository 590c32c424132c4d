"""Every tool there is at one moment, and the part of it that one principal may see.

A `Catalog` never changes: a changed set of tools is another catalog with another `version`. A `View` is a mask over it, so
giving each request its own costs one array, whatever the size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from toolcaddie.errors import CatalogError, DuplicateToolError
from toolcaddie.schema import canonical_json, check_schema, digest
from toolcaddie.tool_types import Tool

Mask = npt.NDArray[np.bool_]

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
    _positions: Mapping[str, int] = field(repr=False)
    _by_category: Mapping[str, tuple[int, ...]] = field(repr=False)
    _categories: Mapping[str, Category] = field(repr=False)

    @classmethod
    def of(cls, tools: Iterable[Tool], categories: Iterable[Category] = (), *, check_schemas: bool = True) -> Catalog:
        """Check and index tools and categories.

        `check_schemas=False` is for tools we never run ourselves: their names and schemas are for the provider to judge.
        Raises `DuplicateToolError` (both sources named) and `CatalogError` (a bad name or schema, a category twice).
        A tool in a category nobody described gets a category of that bare name, after the described ones.
        """
        tools = tuple(tools)
        described: dict[str, Category] = {}
        for category in categories:
            if category.name in described:
                raise CatalogError(f"category {category.name!r} is defined twice; merge the two definitions")
            described[category.name] = category
        positions: dict[str, int] = {}
        members: dict[str, list[int]] = {}
        for position, tool in enumerate(tools):
            check_tool(tool, schemas=check_schemas)
            earlier = positions.setdefault(tool.name, position)
            if earlier != position:
                raise DuplicateToolError(
                    f"tool {tool.name!r} comes from source {tools[earlier].source!r} and again from source "
                    f"{tool.source!r}; rename one or leave one source out"
                )
            if tool.category is not None:
                described.setdefault(tool.category, _bare(tool.category))
                members.setdefault(tool.category, []).append(position)
        return cls(
            tools=tools,
            categories=tuple(described.values()),
            version=_version(tools, tuple(described.values())),
            _positions=positions,
            _by_category={name: tuple(found) for name, found in members.items()},
            _categories=described,
        )

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
        return self._categories.get(name)

    def positions_in(self, category: str) -> tuple[int, ...]:
        """Positions of a category's tools, in catalog order; empty for an unknown one."""
        return self._by_category.get(category, ())

    def is_core(self, tool: Tool) -> bool:
        """Whether a tool is sent always, by itself or by its category."""
        if tool.core:
            return True
        category = self._categories.get(tool.category) if tool.category else None
        return category is not None and category.core


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
        return tuple(
            category.name
            for category in self.catalog.categories
            if not category.core and any(not self.catalog.tools[i].core for i in self.positions_in(category.name))
        )

    def narrowed(self, mask: Mask) -> View:
        """The view that also needs `mask`."""
        return View(catalog=self.catalog, mask=mask if self.mask is None else self.mask & mask)


def _bare(name: str) -> Category:
    """A category nobody described: its own name is the one word it is known by."""
    return Category(name=name, keywords=(re.sub(r"[_\-.]+", " ", name).strip().lower(),))


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


def _version(tools: tuple[Tool, ...], categories: tuple[Category, ...]) -> str:
    try:
        return digest(
            (tools, categories)
        )  # in one piece: a gateway makes a catalog of its client's tools in each request
    except (TypeError, ValueError, RecursionError) as error:
        items: list[Tool | Category] = [*tools, *categories]
        what = next((f"{type(item).__name__.lower()} {item.name!r}" for item in items if not _is_json(item)), "a tool")
        raise CatalogError(f"{what}: the definition is no JSON: {str(error)[:300]}") from error


def _is_json(item: Tool | Category) -> bool:
    try:
        canonical_json(item)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
