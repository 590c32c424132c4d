"""Catalogs of tools, and views of the tools that one principal may see.

A `Catalog` never changes: a changed set of tools is another catalog with another `version`. A `View` is a mask over it, so a
view for each request costs one mask, however large the catalog is. Facts about the tools are in flat buffers (`bytes`,
`array`), which selection reads as arrays without copying them. A catalog is made from the tools of an installation's sources.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import compress, count
from operator import is_not
from typing import Any, TypeVar

from toolcaddie.core.errors import CatalogError, DuplicateToolError
from toolcaddie.core.places import Places
from toolcaddie.core.schema import canonical_json, check_schema
from toolcaddie.core.tool import Tool

Mask = bytes
"""One byte per tool: 1 if it is visible, 0 if it is hidden."""

DIGEST_BYTES = 32
"""Size of a SHA-256 digest."""

T = TypeVar("T")

_Blocks = Mapping[bytes, tuple[bytes, bytes]]
"""The digests of neighbouring tools with the digest of all of them, by the first of these digests."""

_Piece = range | tuple[Tool, ...]
"""Neighbouring tools: their positions in the previous catalog, or the tools themselves if they are new."""

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A named group of tools, as data: adding one never needs code."""

    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    """Names of categories that are included when this one matches."""
    core: bool = False
    """True: the category's tools are sent with every request."""
    default: bool = False
    """True: the category is used for requests that match no category."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Catalog:
    """All tools and categories, in their order. Make one with `Catalog.of`. Two catalogs with the same content have the same
    `version`; `==` compares identity only."""

    tools: tuple[Tool, ...]
    categories: tuple[Category, ...]
    version: str
    digests: bytes = field(repr=False)
    """SHA-256 of each tool's canonical JSON, concatenated."""
    category_of: array[int] = field(repr=False)
    """Index in `categories` of each tool's category; -1: the tool has none. 64-bit integers; read-only."""
    _described: int = field(repr=False)
    """Number of categories that were passed to `of`. They come first; the later ones are known only by their names in tools."""
    _places: Places = field(repr=False)
    _category_at: Mapping[str, int] = field(repr=False)
    _categories_digest: bytes = field(repr=False)
    _blocks: _Blocks = field(repr=False)
    _facts: dict[str, Any] = field(repr=False, default_factory=dict)
    """What `_once` has computed about the catalog."""

    @classmethod
    def of(
        cls,
        tools: Iterable[Tool],
        categories: Iterable[Category] = (),
        *,
        check_schemas: bool = True,
        before: Catalog | None = None,
    ) -> Catalog:
        """Checks and indexes tools and categories.

        `check_schemas=False` is for tools that Toolcaddie never runs itself; the provider checks their names and schemas.
        Raises `DuplicateToolError`, which names both sources, and `CatalogError` for a bad name or schema or for two
        categories with one name. If a tool names a category that is not in `categories`, a category with only this name is
        added after the described ones.

        `before` is an earlier catalog. It saves work and changes nothing else: the `Tool` objects of that catalog are not
        checked and digested again. If few tools differ, a catalog of 25,000 tools takes 2 ms.
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
            return cls._after(_EMPTY, [tools], tools, described, check_schemas=check_schemas)
        return cls._after(before, _pieces(before, tools), tools, described, check_schemas=check_schemas)

    @classmethod
    def _after(
        cls,
        previous: Catalog,
        pieces: Sequence[_Piece],
        tools: tuple[Tool, ...],
        described: Mapping[str, Category],
        *,
        check_schemas: bool,
    ) -> Catalog:
        """Returns the catalog of `tools`, the concatenated `pieces`; only new tools are checked and digested."""
        _check_new(pieces, check_schemas=check_schemas)
        edit = _edit_of(pieces, previous)
        places = _places(tools, edit, previous)
        digests = _digests(pieces, previous)
        category_of = _category_of(pieces, edit, tuple(described.values()), previous)
        if category_of is not None:
            categories, at, digest = previous.categories, previous._category_at, previous._categories_digest
        else:
            names, category_of = _categorised(pieces, tuple(described), previous)
            categories = tuple(described.get(name) or previous._bare(name) for name in names)
            at, digest = {name: number for number, name in enumerate(names)}, _digest_of_all(categories)
        blocks = _blocked(digests, previous._blocks)
        return cls(
            tools=tools,
            categories=categories,
            version=hashlib.sha256(b"".join([*(block for _, block in blocks.values()), digest])).hexdigest(),
            digests=digests,
            category_of=category_of,
            _described=len(described),
            _places=places,
            _category_at=at,
            _categories_digest=digest,
            _blocks=blocks,
        )

    def with_tools(
        self, added: Iterable[Tool] = (), *, removed: Iterable[str] = (), check_schemas: bool = True
    ) -> Catalog:
        """Returns a copy with some tools changed: the result of `Catalog.of`, at the cost of the changes only.

        An added tool takes the place of the removed tool with the same name; all other added tools come last. Raises the
        errors of `of`, and `CatalogError` if a tool to remove does not exist.
        """
        added = tuple(added)
        names = [_name_of(tool) for tool in added]
        incoming = {name: number for number, name in enumerate(names)}
        removed_at = {name: self._places.get(name) for name in removed}
        if unknown := [name for name, position in removed_at.items() if position is None]:
            raise CatalogError(f"the catalog has no tool {unknown[0]!r} to remove; it may have gone already")
        pieces: list[_Piece] = []
        start = 0
        for position in sorted(position for position in removed_at.values() if position is not None):
            pieces.append(range(start, position))
            if (number := incoming.get(self.tools[position].name)) is not None:
                pieces.append((added[number],))
            start = position + 1
        last = tuple(
            tool
            for number, (tool, name) in enumerate(zip(added, names, strict=True))
            if name not in removed_at or incoming[name] != number
        )
        pieces += [range(start, len(self)), last]
        tools: list[Tool] = []
        for piece in pieces:
            tools += self.tools[piece.start : piece.stop] if isinstance(piece, range) else piece
        described = {category.name: category for category in self.categories[: self._described]}
        return Catalog._after(self, pieces, tuple(tools), described, check_schemas=check_schemas)

    def _bare(self, name: str) -> Category:
        """Returns the category for a name that no description was given for; the name is its only keyword."""
        at = self._category_at.get(name, -1)
        if at >= self._described:
            return self.categories[at]
        return Category(name=name, keywords=(re.sub(r"[_\-.]+", " ", name).strip().lower(),))

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def position(self, name: str) -> int | None:
        return self._places.get(name)

    def get(self, name: str) -> Tool | None:
        position = self._places.get(name)
        return None if position is None else self.tools[position]

    def category(self, name: str) -> Category | None:
        at = self._category_at.get(name)
        return None if at is None else self.categories[at]

    def positions_in(self, category: str) -> tuple[int, ...]:
        """Returns the positions of a category's tools, in catalog order; empty for an unknown category."""
        at = self._category_at.get(category)
        return () if at is None else _grouped(self)[at]

    def is_core(self, tool: Tool) -> bool:
        """Returns True if a tool is always sent, because it or its category is flagged as core."""
        if tool.core:
            return True
        category = self.category(tool.category) if tool.category else None
        return category is not None and category.core


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """The part of a catalog that one principal may see. Byte i of `mask` is 1 if tool i is visible; None: all tools are visible.

    `mask` may be passed as any flags, one per tool (a list of booleans, a numpy array), and is stored as bytes.
    """

    catalog: Catalog
    mask: Mask | None = None
    shadowed: tuple[str, ...] = ()
    """Names of tools that the principal could see if the request had not brought its own tools of these names."""

    def __post_init__(self) -> None:
        if self.mask is None:
            return
        mask = bytes(self.mask)  # bytes stay the same object
        if len(mask) != len(self.catalog) or mask.translate(None, b"\0\1"):
            raise CatalogError(
                f"a mask has one flag for each of {len(self.catalog)} tools, 0 or 1; got {len(mask)} bytes"
            )
        object.__setattr__(self, "mask", mask)

    def __len__(self) -> int:
        return len(self.catalog) if self.mask is None else int.from_bytes(self.mask, "little").bit_count()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.catalog.tools) if self.mask is None else compress(self.catalog.tools, self.mask)

    def sees(self, position: int) -> bool:
        return self.mask is None or bool(self.mask[position])

    def get(self, name: str) -> Tool | None:
        """Returns the tool of that name if it is visible."""
        catalog, mask = self.catalog, self.mask
        position = catalog._places.get(name)
        return None if position is None or (mask is not None and not mask[position]) else catalog.tools[position]

    def positions_in(self, category: str) -> tuple[int, ...]:
        """Returns the visible positions of a category, in catalog order."""
        positions = self.catalog.positions_in(category)
        return positions if self.mask is None else tuple(at for at in positions if self.mask[at])

    def category_names(self) -> tuple[str, ...]:
        """Returns the categories with at least one visible tool that is not a core tool, in catalog order."""
        ordinary, names = _ordinary(self.catalog)
        return names if self.mask is None else _names_of(self.catalog, _both(ordinary, self.mask))

    def narrowed(self, mask: Mask | Iterable[bool]) -> View:
        """Returns a view of the tools that both this view and `mask` show."""
        narrower = View(catalog=self.catalog, mask=bytes(mask), shadowed=self.shadowed)
        if self.mask is None or narrower.mask is None:
            return narrower
        return View(catalog=self.catalog, mask=_both(self.mask, narrower.mask), shadowed=self.shadowed)


def _both(first: Mask, second: Mask) -> Mask:
    """Returns the mask of the tools that both masks show."""
    return (int.from_bytes(first, "little") & int.from_bytes(second, "little")).to_bytes(len(first), "little")


def _once(compute: Callable[[Catalog], T]) -> Callable[[Catalog], T]:
    """Decorates a function of a catalog, which is then called once for each catalog: its result lives as long as the catalog."""
    name = compute.__name__

    @wraps(compute)
    def value(catalog: Catalog) -> T:
        facts = catalog._facts
        if name not in facts:
            facts[name] = compute(catalog)
        fact: T = facts[name]
        return fact

    return value


@_once
def has_own_forms(catalog: Catalog) -> bool:
    """Returns True if a tool has a form of its own in the client's API (`Tool.own_form`). Every request needs it."""
    return any(tool.own_form is not None for tool in catalog.tools)


@_once
def _ordinary(catalog: Catalog) -> tuple[Mask, tuple[str, ...]]:
    """Returns a mask of the tools that have a category and are not core, and the names of their categories. Every request
    needs them."""
    ordinary = bytes(tool.category is not None and not catalog.is_core(tool) for tool in catalog.tools)
    return ordinary, _names_of(catalog, ordinary)


def _names_of(catalog: Catalog, mask: Mask) -> tuple[str, ...]:
    """Returns the names of the categories of these tools, in catalog order."""
    return tuple(catalog.categories[at].name for at in sorted(set(compress(catalog.category_of, mask))))


@_once
def _grouped(catalog: Catalog) -> Sequence[tuple[int, ...]]:
    """Returns the positions of the tools of each category; the last entry has the tools without a category."""
    groups: list[list[int]] = [[] for _ in (*catalog.categories, None)]  # index -1: the tools without a category
    for position, at in enumerate(catalog.category_of):
        groups[at].append(position)
    return [tuple(group) for group in groups]


def tool_digest(tool: Tool) -> str:
    """Returns a digest of everything that a tool declares: its name, source, description, schemas and annotations."""
    return _digest(tool).hex()


def check_tool(tool: Tool, *, schemas: bool = True) -> None:
    """Raises `CatalogError`, naming source and tool, unless the definition can be sent to a provider. `schemas=False`: only
    checks that there is a name."""
    title = f"tool {tool.name!r} of source {tool.source!r}"
    if not schemas:
        if not tool.name:
            raise CatalogError(f"{title}: a tool needs a name")
        return
    if not isinstance(tool.name, str) or not _TOOL_NAME.match(tool.name):
        raise CatalogError(f"{title}: a name is 1 to 64 letters, digits, '_' or '-'; rename it")
    check_schema(tool.input_schema, what=title)
    if tool.output_schema is not None:
        check_schema(tool.output_schema, what=f"{title}, output")


def _check_new(pieces: Iterable[_Piece], *, check_schemas: bool) -> None:
    start = 0
    for piece in pieces:
        if not isinstance(piece, range):
            for position, tool in enumerate(piece, start=start):
                if not isinstance(tool, Tool):
                    raise CatalogError(
                        f"tools[{position}] is a {type(tool).__name__}, not a Tool; functions become tools in a "
                        "FunctionSource, definitions in Picker.of"
                    )
                check_tool(tool, schemas=check_schemas)
        start += len(piece)


def _digest_of_all(categories: tuple[Category, ...]) -> bytes:
    try:
        return hashlib.sha256(canonical_json(categories)).digest()
    except (TypeError, ValueError, RecursionError):
        for category in categories:
            _digest(category)  # its error names the category
        raise


def _digest(item: Tool | Category) -> bytes:
    try:
        return hashlib.sha256(canonical_json(item)).digest()
    except (TypeError, ValueError, RecursionError) as error:
        title = f"{type(item).__name__.lower()} {item.name!r}"
        raise CatalogError(f"{title}: the definition is not JSON: {str(error)[:300]}") from error


# --- from one catalog to the next: slices of the previous one, and loops over the new tools -----------------------------------


def _name_of(tool: Tool) -> str:
    """Returns the name of a new tool that is not checked yet; empty if it is not a `Tool`, which `_check_new` then refuses."""
    return tool.name if isinstance(tool, Tool) else ""


def _pieces(previous: Catalog, tools: Sequence[Tool]) -> list[_Piece]:
    """Splits `tools` into pieces: ranges of objects that `previous` has in the same order, and groups of new tools."""
    old = previous.tools
    most = min(len(old), len(tools))
    head = next(compress(count(), map(is_not, old, tools)), most)
    tail = min(next(compress(count(), map(is_not, reversed(old), reversed(tools))), most), most - head)
    pieces: list[_Piece] = [range(head)]
    for tool in tools[head : len(tools) - tail]:
        at = previous._places.get(_name_of(tool))
        last = pieces[-1]
        if at is None or old[at] is not tool:
            pieces[-1:] = [last, (tool,)] if isinstance(last, range) else [(*last, tool)]
        elif isinstance(last, range) and last.stop == at:
            pieces[-1] = range(last.start, at + 1)
        else:
            pieces.append(range(at, at + 1))
    pieces.append(range(len(old) - tail, len(old)))
    return pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit:
    """The common change of a catalog: some tools are removed or replaced, others are added at the end."""

    removed: Mapping[str, int]
    """Names and positions of the removed tools."""
    replaced: Sequence[tuple[int, Tool]]
    """Tools that stand where another tool of the same name stood, with this position in the previous catalog."""
    added: Sequence[Tool]


def _edit_of(pieces: Iterable[_Piece], previous: Catalog) -> _Edit | None:
    """Returns the change as an edit, or None if tools were moved or inserted before others."""
    old = previous.tools
    gone: list[int] = []
    replaced: list[tuple[int, Tool]] = []
    added: list[Tool] = []
    at = 0
    for piece in pieces:
        if isinstance(piece, range):
            if piece and (piece.start < at or added):
                return None
            gone.extend(range(at, piece.start))
            at = max(at, piece.stop)
            continue
        for tool in piece:
            if at < len(old) and old[at].name == tool.name and not added:
                replaced.append((at, tool))
                at += 1
            else:
                added.append(tool)
    gone.extend(range(at, len(old)))
    return _Edit(removed={old[position].name: position for position in gone}, replaced=replaced, added=added)


def _places(tools: Sequence[Tool], edit: _Edit | None, previous: Catalog) -> Places:
    """Returns the position of each name. Raises `DuplicateToolError` for a name that occurs twice."""
    places = None
    if edit is not None:
        added = [tool.name for tool in edit.added]
        places = previous._places.changed(edit.removed, added)
        if any(name not in edit.removed and previous._places.get(name) is not None for name in added):
            _refuse_duplicate(tools)
    if places is None:
        places = Places.of(tool.name for tool in tools)
    if len(places) < len(tools):
        _refuse_duplicate(tools)
    return places


def _refuse_duplicate(tools: Sequence[Tool]) -> None:
    first: dict[str, int] = {}
    for position, tool in enumerate(tools):
        earlier = first.setdefault(tool.name, position)
        if earlier != position:
            raise DuplicateToolError(
                f"tool {tool.name!r} comes from source {tools[earlier].source!r} and again from source "
                f"{tool.source!r}; rename one or leave one source out"
            )


def _digests(pieces: Iterable[_Piece], previous: Catalog) -> bytes:
    parts: list[bytes | memoryview] = []
    old = memoryview(previous.digests)
    for piece in pieces:
        if isinstance(piece, range):
            parts.append(old[DIGEST_BYTES * piece.start : DIGEST_BYTES * piece.stop])
        else:
            parts.extend(map(_digest, piece))
    return b"".join(parts)


def _category_of(
    pieces: Iterable[_Piece], edit: _Edit | None, described: tuple[Category, ...], previous: Catalog
) -> array[int] | None:
    """Returns the index of each tool's category if the catalog has the categories of the previous one, in the same order; None if
    they may differ.

    The order of the categories that are known only by name is that of their first tools, so a change of such a first tool may
    change it.
    """
    if edit is None or described != previous.categories[: previous._described]:
        return None
    old, at = previous.category_of, previous._category_at
    for position in edit.removed.values():
        if old[position] >= previous._described and old.index(old[position]) == position:
            return None
    if any(old[position] != _code(tool, at) for position, tool in edit.replaced):
        return None
    codes: array[int] = array("q")
    for piece in pieces:
        if isinstance(piece, range):
            codes += old[piece.start : piece.stop]
            continue
        for tool in piece:
            code = _code(tool, at)
            if code is None:
                return None
            codes.append(code)
    return codes


def _code(tool: Tool, category_at: Mapping[str, int]) -> int | None:
    """Returns the index of a tool's category, -1 if it has none; None: there is no such category."""
    return -1 if tool.category is None else category_at.get(tool.category)


def _blocked(digests: bytes, previous: _Blocks) -> _Blocks:
    """Returns the digests of a catalog in blocks, so that only those of changed blocks have to be digested again.

    A block ends after a digest that begins with a 0, and has about 256 digests. So a change of one tool moves no other end.
    """
    firsts, total = digests[::DIGEST_BYTES], len(digests) // DIGEST_BYTES
    blocks: dict[bytes, tuple[bytes, bytes]] = {}
    start = 0
    while start < total:
        end = firsts.find(0, start) + 1 or total
        block = digests[DIGEST_BYTES * start : DIGEST_BYTES * end]
        first, start = block[:DIGEST_BYTES], end
        before = previous.get(first)
        blocks[first] = before if before is not None and before[0] == block else (block, hashlib.sha256(block).digest())
    return blocks


def _categorised(
    pieces: Iterable[_Piece], described: Sequence[str], previous: Catalog
) -> tuple[tuple[str, ...], array[int]]:
    """Returns the names of the categories and the index of each tool's category.

    Described categories come first, then the ones known only by name, in the order of their first tools.
    """
    numbers = {name: number for number, name in enumerate(described)}
    numbered = [numbers.setdefault(category.name, len(numbers)) for category in previous.categories]
    codes: array[int] = array("q")
    old = _renumbered(previous.category_of, numbered)
    for piece in pieces:
        if isinstance(piece, range):
            codes += old[piece.start : piece.stop]
        else:
            codes.extend(
                -1 if tool.category is None else numbers.setdefault(tool.category, len(numbers)) for tool in piece
            )
    bare = [code for code in dict.fromkeys(codes) if code >= len(described)]
    order = [*range(len(described)), *bare]
    places = [-1] * len(numbers)
    for place, number in enumerate(order):
        places[number] = place
    names = tuple(numbers)
    return tuple(names[number] for number in order), _renumbered(codes, places)


def _renumbered(codes: array[int], numbers: Sequence[int]) -> array[int]:
    """Returns `codes` (indexes of categories) with each code replaced by `numbers[code]`; -1 (no category) stays -1."""
    if all(code == number for code, number in enumerate(numbers)):
        return codes
    table = [*numbers, -1]  # the last place is index -1: no category
    return array("q", map(table.__getitem__, codes))


_EMPTY = Catalog(
    tools=(),
    categories=(),
    version="",
    digests=b"",
    category_of=array("q"),
    _described=0,
    _places=Places(base={}),
    _category_at={},
    _categories_digest=_digest_of_all(()),
    _blocks={},
)
