"""A source that shows the tools of another one changed, and hands its calls on: the base of such sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.ports import ClaimingSource, ToolSource
from toolcaddie.sources.assessing import assessment


class AlteredSource(ABC):
    """Implements `ToolSource`. The tools are changed once for each revision of the other source."""

    def __init__(self, source: ToolSource) -> None:
        self._source = source
        self._shown: tuple[Sequence[Tool], Mapping[str, Tool]] = ((), {})
        """The tools, and the source's own tools by the names shown."""
        self._at: int | None = None
        """The revision of the source when these were made."""

    @abstractmethod
    def _altered(self, before: Sequence[Tool]) -> tuple[Sequence[Tool], Mapping[str, Tool]]:
        """Returns the tools to show, and the tools of the source by the names shown. `before`: the tools shown until now."""

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def revision(self) -> int:
        return self._source.revision

    @property
    def claims(self) -> frozenset[str]:
        return self._source.claims if isinstance(self._source, ClaimingSource) else frozenset()

    @property
    def wrapped(self) -> Sequence[ToolSource]:
        return (self._source,)

    def tools(self) -> Sequence[Tool]:
        return self._current()[0]

    def categories(self) -> Sequence[Category]:
        return self._source.categories()

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        own = self._own(tool, context)
        if own is None:
            return failed(f"the source {self.name!r} no longer has the tool {tool.name!r}; do without it", "revoked")
        return await self._source.call_tool(own, arguments, context)

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        own = self._own(tool, context)
        return NOTHING if own is None else await assessment(self._source, own, arguments, context)

    def _own(self, tool: Tool, context: RunContext) -> Tool | None:
        """Returns the source's own tool that is shown under the name of a tool; None: there is none for this caller."""
        return self._current()[1].get(tool.name)

    def _current(self) -> tuple[Sequence[Tool], Mapping[str, Tool]]:
        revision = self._source.revision  # first: if the tools change meanwhile, they are changed once more
        if revision != self._at:
            self._shown = self._altered(self._shown[0])
            self._at = revision
        return self._shown
