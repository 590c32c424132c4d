"""The pages of the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from toolcaddie.app.build import Assembled
from toolcaddie.core.catalog import View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.tool import Tool
from toolcaddie.desk import ToolDesk
from toolcaddie.doors.console.answers import Answer, redirect
from toolcaddie.doors.console.callers import PRESET_NAMES, Callers, preset_in
from toolcaddie.doors.console.catalog.fields import PREFIX, WHOLE, arguments_in, fields_of
from toolcaddie.doors.console.catalog.knowing import readable_view, sights_of, use_of
from toolcaddie.doors.console.catalog.searching import finding_of
from toolcaddie.doors.console.catalog.tries import Tries, Try
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.doors.tool_sheets import parameter_rows
from toolcaddie.guards.aside import aside

PATH = f"{HOME}catalog"
PAGE = 100
"""Number of tools on a page of the list."""
_LONGEST_QUERY = 2_000


def catalog_section(parts: Assembled) -> Section:
    """Returns the section."""
    return Section(
        title="Catalog",
        path=PATH,
        routes=lambda renderer: _Catalog(parts, renderer).routes,
        level="viewer",
        needs_catalog=True,
    )


class _Catalog:
    def __init__(self, parts: Assembled, renderer: Renderer) -> None:
        self._runtime = parts.runtime
        self._log = parts.event_log
        self._roles = tuple(parts.settings.roles)
        self._tries = Tries(parts.documents)
        self._callers = Callers(parts.runtime, parts.keys)
        self._renderer = renderer

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (
            PageRoute(method="GET", path=PATH, handle=self._list),
            PageRoute(method="GET", path=f"{PATH}/{{name}}", handle=self._show),
            PageRoute(method="POST", path=f"{PATH}/{{name}}/try", handle=self._try, level="operator"),
        )

    async def _list(self, visit: Visit) -> Answer:
        query = visit.request.query
        text = query.get("q", "").strip()
        return await (self._search(visit, text) if text else self._page(visit))

    async def _page(self, visit: Visit) -> Answer:
        """Returns a page of the list, in the order of the catalog, from behind the tool that the address names."""
        query = visit.request.query
        category, source, after = (query.get(name, "") for name in ("category", "source", "after"))
        view, own = await aside(self._views, visit)
        tools = list(islice(_tools_of(view, category, source, after), PAGE + 1))
        page = tools[:PAGE]
        data = {
            "tools": [_row(tool, is_yours=own.get(tool.name) is not None) for tool in page],
            "total": len(view),
            "next": page[-1].name if len(tools) > PAGE else None,
        }
        filters = {"category": category, "source": source}
        return self._renderer.page(
            "catalog/list.html",
            visit,
            data,
            path=PATH,
            sources=sorted(Counter(tool.source for tool in view).items()),
            categories=sorted(Counter(tool.category for tool in view if tool.category).items()),
            chosen_category=category,
            chosen_source=source,
            is_later=bool(after),
            next_path=_address({**filters, "after": data["next"]}) if data["next"] else "",
            first_path=_address(filters),
            **await self._choices(visit),
        )

    async def _search(self, visit: Visit, text: str) -> Answer:
        if len(text) > _LONGEST_QUERY:
            raise RequestError(f"a search has at most {_LONGEST_QUERY:,} characters", param="q")
        query = visit.request.query
        desk = self._desk(visit, await self._callers.caller_of(visit, query.get("bot", "")), query.get("preset", ""))
        finding = await finding_of(self._runtime, desk, text)
        return self._renderer.page(
            "catalog/search.html",
            visit,
            {"query": text, "finding": finding},
            path=PATH,
            **await self._choices(visit),
        )

    async def _show(self, visit: Visit) -> Answer:
        result = visit.request.query.get("result")
        return await self._sheet(visit, await self._tries.find(visit.person, result) if result else None)

    async def _sheet(self, visit: Visit, tried: Try | None, *, problem: str = "") -> Answer:
        """Returns the page of a tool with the result of a call, or with a form that could not be read and the reason why."""
        form = visit.form
        tool = await self._tool(visit)
        roles = sorted({*tool.roles, *self._roles})
        sights = sights_of(self._runtime, tool, visit.person, roles)
        if tried is not None and tried.tool != tool.name:
            tried = None
        definition = wire_definition(tool)
        return self._renderer.page(
            "catalog/tool.html",
            visit,
            {
                "tool": tool,
                "definition": definition,
                "sights": sights,
                "use": await use_of(self._log, tool.name, visit.tenant),
                "result": tried,
            },
            status=400 if problem else 200,
            problem=problem,
            parameters=parameter_rows(tool.input_schema),
            fields=fields_of(tool.input_schema, None if tried is None else tried.arguments, form),
            prefix=PREFIX,
            whole=WHOLE,
            schema=_pretty(tool.input_schema),
            output_schema=_pretty(tool.output_schema) if tool.output_schema is not None else "",
            wire=_pretty(definition),
            given=_pretty(tried.arguments) if tried is not None else form.get(WHOLE, ""),
            tried_bot=tried.bot if tried is not None else form.get("bot", ""),
            may_try=visit.level in ("operator", "admin")
            and any(each.visible for each in sights if each.kind != "role"),
            list_path=PATH,
            path=_path_of(tool.name),
            home_path=HOME,
            **await self._choices(visit),
        )

    async def _try(self, visit: Visit) -> Answer:
        """Calls a tool in the person's name. Whether it may run is up to the gates of every call."""
        bot = visit.form.get("bot", "")
        desk = self._desk(visit, await self._callers.caller_of(visit, bot))
        tool = desk.tool(visit.part)
        try:
            arguments = arguments_in(visit.form, tool.input_schema)
        except RequestError as error:
            if visit.request.wants_json:
                raise
            return await self._sheet(visit, None, problem=str(error))
        made = await self._tries.make(desk, tool.name, arguments, bot=bot)
        return redirect(f"{_path_of(tool.name)}?result={made.id}#result")

    def _desk(self, visit: Visit, caller: Principal | None = None, preset: str = "") -> ToolDesk:
        return self._runtime.desk(principal=caller or visit.person, preset=preset_in(preset))

    def _views(self, visit: Visit) -> tuple[View, View]:
        """Returns the tools that the person may read about, which are all for an admin of the server, and those of the person's
        own calls."""
        return readable_view(self._runtime, visit), self._desk(visit).view

    async def _tool(self, visit: Visit) -> Tool:
        """Returns the tool of the address. Raises `RequestError` if the person may not read about it."""
        view, _ = await aside(self._views, visit)
        tool = view.get(visit.part)
        return self._desk(visit).tool(visit.part) if tool is None else tool

    async def _choices(self, visit: Visit) -> dict[str, Any]:
        """Returns what the forms of a page offer."""
        query = visit.request.query
        return {
            "bots": await self._callers.bots_of(visit),
            "presets": PRESET_NAMES,
            "chosen_bot": query.get("bot", ""),
            "chosen_preset": query.get("preset", ""),
            "text": query.get("q", ""),
        }


def _tools_of(view: View, category: str, source: str, after: str) -> Iterator[Tool]:
    """Yields the tools of a category and a source (empty: of all), in the order of the catalog, that stand behind the tool
    `after`; if that tool has gone, or for an empty text, from the first one on."""
    place = view.catalog.position(after)
    for position in range(0 if place is None else place + 1, len(view.catalog)):
        tool = view.catalog.tools[position]
        if view.sees(position) and category in ("", tool.category) and source in ("", tool.source):
            yield tool


def _row(tool: Tool, *, is_yours: bool) -> dict[str, object]:
    """Returns a tool as a row of the list. `is_yours`: the person sees it, so a model that works for the person does too."""
    return {
        "name": tool.name,
        "description": tool.description,
        "category": tool.category,
        "source": tool.source,
        "read_only": tool.annotations.read_only,
        "may_destroy": tool.may_destroy,
        "untrusted": tool.untrusted,
        "restricted": tool.is_restricted,
        "visible_to_you": is_yours,
    }


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")


def _path_of(name: str) -> str:
    return f"{PATH}/{quote(name, safe='')}"


def _address(fields: Mapping[str, object]) -> str:
    query = urlencode({name: value for name, value in fields.items() if value})
    return f"{PATH}?{query}" if query else PATH
