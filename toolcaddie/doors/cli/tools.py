"""`toolcaddie tools`: lists the tools of a catalog, or shows one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from toolcaddie.app.runtimes import catalog_of
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import RequestError
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.tool import Tool
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.options import catalog_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table, shortened
from toolcaddie.doors.cli.root import Common
from toolcaddie.selection.selector import Selector
from toolcaddie.util.suggest import close_names
from toolcaddie.util.text import visible_line

_MOST_FOUND = 50
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
@click.option("--category", metavar="C", help="Only tools of this category.")
@click.option("--search", metavar="TEXT", help="Only tools that match these words, the best first.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, catalogs: tuple[str, ...], category: str | None, search: str | None, as_json: bool
) -> None:
    """List the tools of a catalog, or show one."""
    if ctx.invoked_subcommand is not None:
        return
    catalog = catalog_of(settings_of(ctx.find_object(Common) or Common(), catalogs=catalogs))
    tools = [tool for tool in _matching_tools(catalog, search) if category is None or tool.category == category]
    if category is not None and catalog.category(category) is None:
        names = [entry.name for entry in catalog.categories]
        raise RequestError(f"no category {category!r}; {name_advice(category, names)}", param="category")
    if as_json:
        print_json({"tools": [_tool_json(tool) for tool in tools], "count": len(tools)})
        return
    if not tools:
        note(_nothing(search or category, catalog))
        return
    rows = [(tool.name, tool.category, _flags(catalog, tool), _line(tool)) for tool in tools]
    print_table(("tool", "category", "flags", "what it does"), rows, spare=("category",))
    echo(f"{len(tools)} of {len(catalog)} tools")


@command.command("show", epilog="\b\nExample:\n  toolcaddie tools show freeze_membership --catalog gym")
@click.argument("name")
@catalog_option
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, catalogs: tuple[str, ...], as_json: bool) -> None:
    """Show a tool's description and the schema of its arguments."""
    before = ctx.parent.params["catalogs"] if ctx.parent else ()
    as_json = as_json or bool(ctx.parent and ctx.parent.params["as_json"])
    catalog = catalog_of(settings_of(ctx.find_object(Common) or Common(), catalogs=catalogs or before))
    tool = catalog.get(name)
    if tool is None:
        names = [other.name for other in catalog]
        raise RequestError(f"no tool {name!r}; {name_advice(name, names)}", param="name")
    if as_json:
        print_json({**_tool_json(tool), "definition": wire_definition(tool)})
        return
    echo(visible_line(tool.name), nl=False, bold=True)
    echo(f"  {_flags(catalog, tool)}".rstrip())
    echo(f"category {tool.category or '-'}, source {tool.source}")
    echo(f"\n{tool.description}\n")
    print_json(tool.input_schema)


def _matching_tools(catalog: Catalog, search: str | None) -> Sequence[Tool]:
    if search is None:
        return catalog.tools
    return [hit.tool for hit in Selector().search(View(catalog=catalog), search, _MOST_FOUND)]


def _tool_json(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "category": tool.category,
        "source": tool.source,
        "core": tool.core,
        "annotations": tool.annotations,
        "tags": tool.tags,
        "parameters": tool.input_schema,
    }


def _flags(catalog: Catalog, tool: Tool) -> str:
    flags = ["core"] if catalog.is_core(tool) else []
    if tool.annotations.read_only:
        flags.append("reads")
    elif tool.may_destroy:
        flags.append("may destroy")
    return ", ".join(flags)


def _line(tool: Tool) -> str:
    return shortened(tool.description, _DESCRIPTION_SHOWN)


def _nothing(search: str | None, catalog: Catalog) -> str:
    if search is None:
        return "there are no tools: the catalogs, or the categories enabled by catalog.categories, hold none"
    return f"nothing matches {search!r}; `toolcaddie tools` lists all {len(catalog)}"


def name_advice(name: str, names: Sequence[str]) -> str:
    """Returns advice on a name that does not exist: the close names, or the command that lists all."""
    close = close_names(name, names)
    return f"did you mean {', '.join(close)}?" if close else "`toolcaddie tools` lists what there is"
