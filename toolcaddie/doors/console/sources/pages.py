"""The pages of tool sources."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlencode

from toolcaddie.app.build import Assembled
from toolcaddie.core.errors import RequestError
from toolcaddie.doors.console.answers import Answer, redirect
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.doors.console.sources.doubts import doubts_in
from toolcaddie.doors.console.sources.states import mcp_of, states_of
from toolcaddie.ports import ToolSource
from toolcaddie.sources.mcp.pins import PinStore, shown_pins

PATH = f"{HOME}sources"
_SHOWN = 100
"""The largest number of problems and doubts on a page."""


def sources_section(parts: Assembled) -> Section:
    """Returns the section."""
    return Section(
        title="Sources",
        path=PATH,
        routes=lambda renderer: _Sources(parts, renderer).routes,
        level="admin",
        of_server=True,
    )


class _Sources:
    def __init__(self, parts: Assembled, renderer: Renderer) -> None:
        self._parts = parts
        self._renderer = renderer

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (
            PageRoute(method="GET", path=PATH, handle=self._list),
            PageRoute(method="GET", path=f"{PATH}/show", handle=self._show),
            PageRoute(method="POST", path=f"{PATH}/accept", handle=self._accept),
        )

    async def _list(self, visit: Visit) -> Answer:
        source = self._parts.runtime.source
        doubts = await asyncio.to_thread(doubts_in, source.snapshot())
        numbers = Counter(self._part_of(doubt.source) for doubt in doubts)
        return self._renderer.page(
            "sources/list.html",
            visit,
            {
                "sources": await states_of(self._parts),
                "problems": source.problems[:_SHOWN],
                "doubts": dict(numbers),
                "tools": len(source.snapshot()),
            },
            path=PATH,
        )

    async def _show(self, visit: Visit) -> Answer:
        part = self._source(visit.request.query.get("name", ""))
        catalog = self._parts.runtime.source.snapshot()
        doubts = await asyncio.to_thread(doubts_in, catalog)
        server = mcp_of(part)
        pins = [] if server is None else shown_pins(await PinStore(self._parts.documents).read(server.name))
        return self._renderer.page(
            "sources/source.html",
            visit,
            {
                "source": next(state for state in await states_of(self._parts) if state.name == part.name),
                "quarantined": pins,
                "doubts": [doubt for doubt in doubts if self._part_of(doubt.source) == part.name][:_SHOWN],
            },
            path=PATH,
            home_path=HOME,
            catalog_query=urlencode({"source": part.name}),
            done=visit.request.query.get("done", ""),
        )

    async def _accept(self, visit: Visit) -> Answer:
        """Takes the definition of a tool out of quarantine, or all of a source."""
        part, tool = self._source(visit.form.get("source", "")), visit.form.get("tool", "")
        server = mcp_of(part)
        if server is None:
            raise RequestError(f"the source {part.name!r} is no MCP server, so it has no quarantine", param="source")
        digest = visit.form.get("digest", "")
        waiting = {pin["tool"]: pin for pin in shown_pins(await PinStore(self._parts.documents).read(server.name))}
        if tool not in waiting:
            raise RequestError(f"no tool {tool[:64]!r} of this source is in quarantine", param="tool", code="changed")
        if digest != waiting[tool]["changed"]:
            raise RequestError("the definition has changed since the page was made; read it again", code="changed")
        await server.accept(tool)
        return redirect(f"{PATH}/show?{urlencode({'name': part.name, 'done': 'accepted'})}")

    def _source(self, name: str) -> ToolSource:
        """Returns the source of a name. Raises `RequestError` if there is none."""
        part = next((part for part in self._parts.runtime.source.wrapped if part.name == name), None)
        if part is None:
            raise RequestError(f"there is no source {name[:100]!r}", param="name", code="unknown_page")
        return part

    def _part_of(self, label: str) -> str:
        """Returns the name of the source that shows tools with this label; most have their source's name as label."""
        names = self._parts.runtime.source.part_names
        return label if label in names else next((name for name in names if label.startswith(name)), label)
