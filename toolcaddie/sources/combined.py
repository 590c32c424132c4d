"""Joins several tool sources into one, and makes the catalog of all their tools. A joined source is called a part here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Catalog, Category, check_tool
from toolcaddie.core.errors import CatalogError, ConfigError, DuplicateToolError
from toolcaddie.core.events import SourceStatus
from toolcaddie.core.meta_names import META_TOOLS, READ_RESULT
from toolcaddie.core.reserved import RESERVED_NAMES
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.ports import ClaimingSource, OpenableSource, ToolSource
from toolcaddie.sources.assessing import assessment
from toolcaddie.sources.life import Report, close_sources, log_status, open_sources
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import close_names, did_you_mean

log = Logger(__name__)

_META_NAMES = META_TOOLS | {READ_RESULT}


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The combined catalog at one moment. Replaced as a whole, so that reading it needs no lock."""

    revisions: tuple[int, ...]
    """The revision of each part when the catalog was made."""
    revision: int
    catalog: Catalog
    holders: Mapping[str, str]
    """Name of a tool -> name of the part whose tool has it."""
    routes: Mapping[str, ToolSource]
    """Label (`Tool.source`) -> the part that runs the tools with this label. Labels stay after their tools are gone, so that a
    later call of such a tool is answered as revoked."""
    problems: tuple[str, ...]


class CombinedSource:
    """Implements `ToolSource` over several sources. `snapshot()` returns the `Catalog` for a request.

    Errors at the start are raised: `ConfigError` for two sources of one name, `DuplicateToolError`, and `CatalogError` for a
    bad or reserved name or a bad schema; each names the source and the tool.

    Later, parts change while requests are served, and a part cannot know the tools of the others. Then only a new tool that
    conflicts is omitted: the older tool of the same name stays, `problems` says what is missing and why, and the new tool is
    added automatically once the conflict is gone.

    Sources that connect to something have tools only while the combined source is open: `async with CombinedSource(...)`, or
    `open` and `close`. `report` is called for every source that was connected or closed, that failed, or whose tools changed.

    `replace_reserved` names reserved tools (`reserved.RESERVED_NAMES`) that the sources may define in place of the product's
    own. Raises `ConfigError` for a name that is not reserved.

    `checked`: a catalog whose tools were checked already, such as that of a part; it shares what it knows about them.
    """

    def __init__(
        self,
        sources: Iterable[ToolSource],
        *,
        name: str = "combined",
        replace_reserved: Iterable[str] = (),
        report: Report = log_status,
        checked: Catalog | None = None,
    ) -> None:
        self._name = name
        self._parts = tuple(sources)
        self._replaced = _reserved(replace_reserved)
        labels = [part.name for part in self._parts]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ConfigError(
                f"two sources are called {twice[0]!r}; give one of them another name, or leave one out: there can be one of "
                "each type whose settings have no `name`"
            )
        self._report = report
        self._opening = asyncio.Lock()
        self.is_open = not any(isinstance(part, OpenableSource) for part in self._parts)
        """True if all tools are available. Without parts that connect to something, it is True from the start."""
        self._changing = threading.Lock()
        before = _NOTHING if checked is None else replace(_NOTHING, revisions=(-1,), catalog=checked)
        self._state, problems = _merge(self._parts, self._revisions(), before, self._replaced)
        if problems:
            raise problems[0]

    async def open(self) -> None:
        """Opens the parts; does nothing if they are open.

        Raises `ConfigError` for a part that cannot be opened, and `CatalogError` for tools that conflict. After an error all
        parts are closed.
        """
        async with self._opening:
            if not self.is_open:
                await self._open_parts()
                self.is_open = True

    async def _open_parts(self) -> None:
        """Opens all parts and makes the catalog. If tools conflict, all parts are closed and the first conflict is raised."""
        await open_sources(self._parts, self._report)
        with self._changing:
            self._state, problems = _merge(self._parts, self._revisions(), self._state, self._replaced)
        if problems:
            await close_sources(self._parts, self._report)
            raise problems[0]

    async def change(self, *, add: Sequence[ToolSource] = (), remove: Iterable[str] = ()) -> None:
        """Adds parts and removes others by name, in one step; a part may replace another of its name. New parts are opened first
        if this source is open. Requests that have begun keep their catalog; their later calls of a removed tool fail as revoked.

        Raises `ConfigError` for an unknown name, a name that is taken, and a part that cannot be opened; `CatalogError` for
        tools that conflict. After an error everything is as before.
        """
        async with self._opening:
            kept, gone = self._without(set(remove))
            labels = [part.name for part in (*kept, *add)]
            if twice := [label for label in labels if labels.count(label) > 1]:
                raise ConfigError(f"two sources are called {twice[0]!r}; give one of them another name")
            opened = self.is_open
            if opened:
                await open_sources(add, self._report)
            try:
                self._exchange((*kept, *add))
            except CatalogError:
                await close_sources(add, self._report)
                raise
            if not opened and not any(isinstance(part, OpenableSource) for part in self._parts):
                self.is_open = True
            await close_sources(gone, self._report)

    def _without(self, names: set[str]) -> tuple[list[ToolSource], list[ToolSource]]:
        """Returns the parts that stay, and those with these names. Raises `ConfigError` for a name that no part has."""
        labels = [part.name for part in self._parts]
        for name in sorted(names.difference(labels)):
            raise ConfigError(f"no source is called {name!r}; {did_you_mean(name, labels)}")
        kept = [part for part in self._parts if part.name not in names]
        return kept, [part for part in self._parts if part.name in names]

    def _exchange(self, parts: Sequence[ToolSource]) -> None:
        """Makes the catalog of these parts. Raises the first conflict that the present parts do not have; then nothing
        changes."""
        with self._changing:
            before, known = self._parts, set(self._state.problems)
            self._parts = tuple(parts)
            routes = {label: part for label, part in self._state.routes.items() if any(part is each for each in parts)}
            state, problems = _merge(
                self._parts, self._revisions(), replace(self._state, routes=routes), self._replaced
            )
            if new := [problem for problem in problems if str(problem) not in known]:
                self._parts = before
                raise new[0]
            self._state = state

    async def close(self) -> None:
        """Closes the parts, unless they are closed; they may be opened again."""
        is_opening = self._opening.locked()
        if (self.is_open or is_opening) and any(isinstance(part, OpenableSource) for part in self._parts):
            self.is_open = False
            await close_sources(self._parts, self._report)

    async def __aenter__(self) -> CombinedSource:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def name(self) -> str:
        return self._name

    @property
    def revision(self) -> int:
        return self._current().revision

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self._parts)

    @property
    def wrapped(self) -> Sequence[ToolSource]:
        return self._parts

    @property
    def claims(self) -> frozenset[str]:
        """The reserved names that the parts may use."""
        return self._replaced.union(*map(_claims, self._parts))

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each tool or category that the parts offer and the catalog omits."""
        return self._current().problems

    def snapshot(self) -> Catalog:
        """Returns the current catalog; the same object until a part changes."""
        return self._current().catalog

    def tools(self) -> Sequence[Tool]:
        return self._current().catalog.tools

    def categories(self) -> Sequence[Category]:
        return self._current().catalog.categories

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        """Passes the call to the part that the tool belongs to."""
        state = self._current()
        part = state.routes.get(tool.source)
        if part is None:
            return failed(f"no source {tool.source!r} runs the tool {tool.name!r}; do without it", "revoked")
        current = state.catalog.get(tool.name)
        if current is not None and (current.source, current.backing) != (tool.source, tool.backing):
            return failed(
                f"{tool.name} was replaced by another tool since this request began; do without it", "revoked"
            )
        return await part.call_tool(tool, arguments, context)

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Asks the part that the tool belongs to."""
        part = self._current().routes.get(tool.source)
        return NOTHING if part is None else await assessment(part, tool, arguments, context)

    def _revisions(self) -> tuple[int, ...]:
        return tuple(part.revision for part in self._parts)

    def _current(self) -> _State:
        """Returns the current state. If the revision of a part has changed, a new state is made first."""
        if self._revisions() == self._state.revisions:
            return self._state
        with self._changing:
            # The revisions are read before the tools: a change in between shows as another revision at the next request.
            revisions = self._revisions()
            before = self._state
            if revisions != before.revisions:
                self._state, _ = _merge(self._parts, revisions, before, self._replaced)
                self._report_changes(before, revisions)
                for problem in self._state.problems:
                    if problem not in before.problems:
                        log.error("omitted_from_catalog", problem=problem)
            return self._state

    def _report_changes(self, before: _State, revisions: tuple[int, ...]) -> None:
        for part, revision, now in zip(self._parts, before.revisions, revisions, strict=True):
            if revision != now and self.is_open:
                self._report(SourceStatus(source=part.name, status="changed", tools=len(part.tools())))


def combined(sources: Sequence[ToolSource], *, replace_reserved: Iterable[str] = ()) -> CombinedSource:
    """Returns the sources as one. A single source that is a `CombinedSource` already is returned unchanged."""
    if len(sources) == 1 and isinstance(sources[0], CombinedSource):
        return sources[0]
    return CombinedSource(sources, replace_reserved=replace_reserved)


_NOTHING = _State(revisions=(), revision=-1, catalog=Catalog.of(()), holders={}, routes={}, problems=())


def _reserved(names: Iterable[str]) -> frozenset[str]:
    """Returns the names as a set. Raises `ConfigError` for a name that is not reserved."""
    replaced = frozenset(names)
    for name in sorted(replaced - RESERVED_NAMES.keys()):
        close = close_names(name, RESERVED_NAMES)
        meant = f"did you mean {close[0]!r}?" if close else "take it out of the list"
        raise ConfigError(f"catalog.replace_reserved: the name {name!r} is not reserved; {meant}")
    return replaced


def _claims(source: ToolSource) -> frozenset[str]:
    """Returns the reserved names that the tools of a source may have."""
    return source.claims if isinstance(source, ClaimingSource) else frozenset()


def _merge(
    parts: Sequence[ToolSource], revisions: tuple[int, ...], before: _State, replaced: frozenset[str]
) -> tuple[_State, list[CatalogError]]:
    """Returns the next state, and an error for everything that it omits."""
    problems: list[CatalogError] = []
    routes = {**before.routes, **{part.name: part for part in parts}}
    holders: dict[str, tuple[ToolSource, Tool]] = {}
    accepted: list[int] = []
    offers = [(part, tool) for part in parts for tool in part.tools()]
    # Tools that were in the catalog before come first, so that they keep their names. The catalog keeps the order of the parts.
    newcomers_last = sorted(
        range(len(offers)), key=lambda at: before.holders.get(offers[at][1].name) != offers[at][0].name
    )
    for position in newcomers_last:
        part, tool = offers[position]
        try:
            _check_name(part, tool.name, tool.source, replaced)
            _check_offer(part, tool, holders, routes, before)
        except CatalogError as error:
            problems.append(error)
        else:
            holders[tool.name] = (part, tool)
            accepted.append(position)
    categories, clashes = _merge_categories(parts, before)
    problems += clashes
    tools = (offers[at][1] for at in sorted(accepted))
    catalog = Catalog.of(tools, categories, check_schemas=False, before=before.catalog if before.revisions else None)
    state = _State(
        revisions=revisions,
        revision=before.revision + 1,
        catalog=catalog,
        holders={name: part.name for name, (part, _) in holders.items()},
        routes=routes,
        problems=tuple(str(problem) for problem in problems),
    )
    return state, problems


def _check_name(part: ToolSource, name: str, source: str, replaced: frozenset[str]) -> None:
    """Raises `CatalogError` for a name that belongs to a meta tool or to a tool of the product."""
    if name in _META_NAMES:
        raise CatalogError(f"tool {name!r} of source {source!r}: a meta tool has this name; rename yours")
    if name not in RESERVED_NAMES or name in replaced or name in _claims(part):
        return
    others = [tool.name for tool in part.tools() if tool.name in RESERVED_NAMES and tool.name not in replaced]
    raise CatalogError(
        f"tool {name!r} of source {source!r}: the name is reserved for {RESERVED_NAMES[name]}; rename yours, or let your "
        f"tools have such names with replace_reserved = {msgspec.json.encode(others).decode()} under [catalog] "
        "(Runtime(replace_reserved=...))"
    )


def _check_offer(
    part: ToolSource,
    tool: Tool,
    holders: Mapping[str, tuple[ToolSource, Tool]],
    routes: dict[str, ToolSource],
    before: _State,
) -> None:
    """Raises `CatalogError` if the tool conflicts with accepted ones. Adds its label to `routes`."""
    if tool.name in holders:
        label = holders[tool.name][1].source
        raise DuplicateToolError(
            f"tool {tool.name!r} comes from source {label!r} and again from source {tool.source!r}; "
            "rename one or leave one source out"
        )
    if routes.setdefault(tool.source, part) is not part:
        raise CatalogError(
            f"tool {tool.name!r} comes from source {part.name!r} but names {tool.source!r}, another one, as its source"
        )
    if before.catalog.get(tool.name) is not tool:  # otherwise the same object was checked when it was added
        check_tool(tool)


def _merge_categories(parts: Sequence[ToolSource], before: _State) -> tuple[list[Category], list[CatalogError]]:
    """Returns the categories of all parts, and an error for each category that two parts define differently. A category that was
    in the catalog before comes first, so that it keeps its definition."""
    offers = [(part, category) for part in parts for category in part.categories()]
    holders: dict[str, tuple[ToolSource, Category]] = {}
    problems: list[CatalogError] = []
    for part, category in sorted(offers, key=lambda offer: before.catalog.category(offer[1].name) != offer[1]):
        holder, held = holders.setdefault(category.name, (part, category))
        if held != category:
            problems.append(
                CatalogError(
                    f"category {category.name!r} is defined by source {holder.name!r} and differently by source "
                    f"{part.name!r}; merge the two definitions"
                )
            )
    order = dict.fromkeys(category.name for _, category in offers)
    return [holders[name][1] for name in order], problems
