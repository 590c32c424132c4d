"""The parts of a tenant's catalog: its own sources, whose tools are marked as the tenant's (`owned`), and the shared tools.

A source of a tenant and its tools get the name of the tenant, so that sources of two tenants may have the same name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.assessment import Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.ports import OpenableSource, ToolSource
from toolcaddie.sources.altered import AlteredSource
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.life import Report, log_status
from toolcaddie.util.replacing import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSources:
    """The sources of one tenant, not opened."""

    sources: Sequence[ToolSource]
    is_current: Callable[[], bool]
    """Returns False after the files of which the sources were made have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """Where the catalogs of tenants come from, and how many are open at once."""

    load: Callable[[str], OwnSources | None]
    """Returns the sources of a tenant, by its name; None: it has none of its own. Called in another thread. Raises
    `TenantCatalogError` for a name that can have none, and `ConfigError` for a mistake in the tenant's files."""
    open: int = 100
    """The largest number of catalogs that stay open while no request uses them."""
    replace_reserved: Sequence[str] = ()
    """Reserved names that tools of tenants may have."""
    report: Report = log_status
    clock: Callable[[], float] = time.monotonic


def owned(source: ToolSource, tenant: str) -> ToolSource:
    """Returns the source with tools that only this tenant may use (`Tool.tenant`). Its name becomes `TENANT/NAME`."""
    return (_OpenableOwned if isinstance(source, OpenableSource) else _Owned)(source, tenant)


def owned_name(tenant: str, name: str) -> str:
    """Returns the name of a source of a tenant."""
    return f"{tenant}/{name}"


class _Owned(AlteredSource):
    def __init__(self, source: ToolSource, tenant: str) -> None:
        super().__init__(source)
        self._tenant = tenant

    @property
    def name(self) -> str:
        return owned_name(self._tenant, self._source.name)

    def _own(self, tool: Tool, context: RunContext) -> Tool | None:
        """Returns the source's own tool; None: it has none of this name, or another tenant calls it."""
        return super()._own(tool, context) if context.principal.tenant == self._tenant else None

    def _altered(self, before: Sequence[Tool]) -> tuple[Sequence[Tool], Mapping[str, Tool]]:
        own = self._source.tools()
        old = {tool.name: tool for tool in before}
        marked = [self._marked(tool) for tool in own if tool.tenant in (None, self._tenant)]
        # A tool that has not changed stays the same object, so that the catalog need not check and index it again.
        shown = [same if (same := old.get(tool.name)) == tool else tool for tool in marked]
        return shown, {tool.name: tool for tool in own}

    def _marked(self, tool: Tool) -> Tool:
        return replace(tool, tenant=self._tenant, source=owned_name(self._tenant, tool.source))


class _OpenableOwned(_Owned):
    """Implements `OpenableSource`."""

    _source: Any

    async def open(self) -> None:
        await self._source.open()

    async def close(self) -> None:
        await self._source.close()


class SharedPart:
    """The shared tools as a part of the catalog of a tenant. It has no tool and no category in whose place the tenant has one of
    its own. The shared source is not opened or closed with the catalog."""

    def __init__(self, source: CombinedSource, own: Sequence[ToolSource]) -> None:
        self._source = source
        self._own = own

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def revision(self) -> int:
        return self._source.revision

    @property
    def claims(self) -> frozenset[str]:
        return self._source.claims

    @property
    def wrapped(self) -> Sequence[ToolSource]:
        return (self._source,)

    def tools(self) -> Sequence[Tool]:
        own = {tool.name for source in self._own for tool in source.tools()}
        return [tool for tool in self._source.tools() if tool.name not in own]

    def categories(self) -> Sequence[Category]:
        own = {category.name for source in self._own for category in source.categories()}
        return [category for category in self._source.categories() if category.name not in own]

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return await self._source.call_tool(tool, arguments, context)

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        return await self._source.assess(tool, arguments, context)
