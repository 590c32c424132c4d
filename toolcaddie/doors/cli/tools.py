"""`toolcaddie tools`: lists the tools of a catalog, or shows one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import click

from toolcaddie.app.runtimes import catalog_of
from toolcaddie.app.settings import Settings
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import RequestError
from toolcaddie.core.run import RunRequest
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.desk import ToolDesk
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.options import box_option, catalog_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import shortened
from toolcaddie.selection.selector import Selector
from toolcaddie.util.suggest import close_names, did_you_mean
from toolcaddie.util.text import visible_line

_MOST_HITS = 50
"""The largest number of tools that a search lists."""
_DESCRIPTION_SHOWN = 80


@click.group(
    name="tools",
    invoke_without_command=True,
    epilog="\b\nExamples:\n"
    "  toolcaddie tools --catalog gym --category memberships\n"
    '  toolcaddie tools --catalog gym --search "who has not paid" --json\n'
    "  toolcaddie tools show freeze_membership --catalog gym",
)
@catalog_option
@box_option
@click.option("--category", metavar="C", help="Only tools of this category.")
@click.option("--source", metavar="NAME", help="Only tools of this source.")
@click.option("--search", metavar="TEXT", help="Only tools that match these words, the best first.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    catalogs: tuple[str, ...],
    box: tuple[str, ...],
    category: str | None,
    source: str | None,
    search: str | None,
    as_json: bool,
) -> None:
    """List the tools of a catalog, or show one of them."""
    if ctx.invoked_subcommand is not None:
        return
    desk = _desk_of(settings_of(ctx.find_object(Common) or Common(), catalogs=catalogs, box=box))
    catalog = desk.view.catalog
    tools = asyncio.run(_matching_tools(desk, search, category))
    if source is not None:
        _check_source(source, catalog)
        tools = [tool for tool in tools if tool.source == source]
    if category is not None and catalog.category(category) is None:
        names = [entry.name for entry in catalog.categories]
        raise RequestError(f"no category {category!r}; {name_advice(category, names)}", param="category")
    if as_json:
        print_json({"tools": [_tool_json(tool) for tool in tools], "count": len(tools)})
        return
    if not tools:
        note(_nothing(search or category or source, catalog))
        return
    rows = [(tool.name, tool.category, _origin(tool), _flags(catalog, tool), _line(tool)) for tool in tools]
    print_table(("tool", "category", "source", "flags", "what it does"), rows, spare=("source", "category"))
    echo(f"{len(tools)} of {len(catalog)} tools")


@command.command("show", epilog="\b\nExample:\n  toolcaddie tools show freeze_membership --catalog gym")
@click.argument("name")
@catalog_option
@box_option
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, catalogs: tuple[str, ...], box: tuple[str, ...], as_json: bool) -> None:
    """Show a tool's description and the schema of its arguments."""
    # `toolcaddie tools --catalog gym show NAME`: options may also precede the subcommand.
    parent = ctx.parent.params if ctx.parent else {"catalogs": (), "box": ()}
    as_json = as_json or bool(ctx.parent and ctx.parent.params["as_json"])
    desk = _desk_of(
        settings_of(
            ctx.find_object(Common) or Common(), catalogs=catalogs or parent["catalogs"], box=box or parent["box"]
        )
    )
    tool = desk.tool(name)
    if as_json:
        print_json({**_tool_json(tool), "definition": wire_definition(tool)})
        return
    echo(visible_line(tool.name), nl=False, bold=True)
    echo(f"  {_flags(desk.view.catalog, tool)}".rstrip())
    echo(f"category {tool.category or '-'}, source {_origin(tool)}")
    echo(f"\n{tool.description}\n")
    print_json(tool.input_schema)


def _desk_of(settings: Settings) -> ToolDesk:
    """Returns a desk, an object that lists, searches and shows tools. It has every enabled tool, whoever may use it, because
    operators see their whole catalog."""
    return ToolDesk(
        request=RunRequest(messages=()),
        view=View(catalog=catalog_of(settings)),
        selector=Selector(),
        prepare=_prepare_nothing,
        caller=_NoCaller(),
    )


async def _prepare_nothing(view: View, query: SelectionQuery) -> None:
    """Prepares nothing, because this search compares words and needs no other data."""


class _NoCaller:
    """Refuses every call: the command shows tools and runs none."""

    async def call(
        self, name: str, arguments: Mapping[str, Any], request: RunRequest, view: View, **_: object
    ) -> ToolResult:
        return failed(f"{name} is not run here; use `toolcaddie call`.", "denied")

    async def taint(self, request: RunRequest, *, seconds: float | None = None) -> Sequence[str]:
        return ()

    async def add_taint(self, request: RunRequest, names: Sequence[str]) -> None:
        """Does nothing, because nothing is run and nothing is read."""


async def _matching_tools(desk: ToolDesk, search: str | None, category: str | None) -> Sequence[Tool]:
    """Returns the tools of a category that match a search, the best first; None: all categories, or no search."""
    if search is None:
        return desk.list(category=category, limit=max(1, len(desk.view.catalog))).tools
    hits = await desk.search(search, limit=_MOST_HITS)
    return [tool for tool in hits if category is None or tool.category == category]


def _tool_json(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "category": tool.category,
        "source": tool.source,
        "original": tool.original or tool.name,
        "core": tool.core,
        "annotations": tool.annotations,
        "tags": tool.tags,
        "parameters": tool.input_schema,
    }


def _origin(tool: Tool) -> str:
    """Returns the source of a tool, and its name there if it is another one."""
    return visible_line(f"{tool.source}: {tool.original}" if tool.original else tool.source)


def _check_source(name: str, catalog: Catalog) -> None:
    names = sorted({tool.source for tool in catalog})
    if name not in names:
        raise RequestError(f"no source {name!r} has tools; {did_you_mean(name, names)}", param="source")


def _flags(catalog: Catalog, tool: Tool) -> str:
    """Returns the flags of a tool: `core`, and `reads` or `may destroy`."""
    flags = ["core"] if catalog.is_core(tool) else []
    if tool.annotations.read_only:
        flags.append("reads")
    elif tool.may_destroy:
        flags.append("may destroy")
    return ", ".join(flags)


def _line(tool: Tool) -> str:
    return shortened(tool.description, _DESCRIPTION_SHOWN)


def _nothing(search: str | None, catalog: Catalog) -> str:
    """Returns the remark that is printed instead of an empty list."""
    if search is None:
        return "there are no tools: the catalogs, or the categories enabled by catalog.categories, contain none"
    return f"nothing matches {search!r}; `toolcaddie tools` lists all {len(catalog)}"


def name_advice(name: str, names: Sequence[str]) -> str:
    """Returns advice on a name that does not exist: the close names, or the command that lists all."""
    close = close_names(name, names)
    return f"did you mean {', '.join(close)}?" if close else "`toolcaddie tools` lists all tools with their categories"
