"""`toolcaddie mcp status`: connects to the MCP servers of the settings and shows what they offer and what is in quarantine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from toolcaddie.app.build import opened
from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.mcp.servers import place_of, server_of, servers_of, tenant_option
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.sources.mcp import McpSource
from toolcaddie.sources.mcp.pins import PinStore, shown_pins
from toolcaddie.util.text import visible_line


@click.command(
    name="status",
    epilog="\b\nExamples:\n  toolcaddie mcp status\n  toolcaddie mcp status github --json\n"
    "  toolcaddie mcp status --tenant acme",
)
@click.argument("server", required=False)
@tenant_option
@database_option
@json_option
@click.pass_obj
def command(common: Common, server: str | None, tenant: str | None, database_url: str | None, as_json: bool) -> None:
    """Connect to the MCP servers of the settings, and show their tools and those in quarantine.

    The exit code is 1 if a server cannot be used or has tools in quarantine.
    """
    rows = asyncio.run(_status(settings_of(common, database_url=database_url), server, tenant))
    if as_json:
        print_json({"servers": rows})
    elif not rows:
        note('the settings name no MCP server; add a table [[source]] with type = "mcp"')
    else:
        _print(rows, tenant)
    if any(row["state"] != "connected" or row["quarantined"] for row in rows):
        raise SystemExit(1)


def _print(rows: Sequence[dict[str, Any]], tenant: str | None) -> None:
    columns = ("server", "state", "protocol", "tools", "quarantined", "place")
    table = [
        (row["name"], row["state"], row["protocol"], str(row["tools"]), str(len(row["quarantined"])), row["place"])
        for row in rows
    ]
    print_table(columns, table, spare=("place",))
    for row in rows:
        if row["reason"]:
            echo(f"{row['name']}: {row['reason']}")
        for problem in row["problems"]:
            echo(f"{row['name']}: {problem}")
        for pin in row["quarantined"]:
            change = "is new" if pin["new"] else "has changed since it was accepted"
            echo(f"\n{row['name']}: {visible_line(pin['tool'])} {change}")
            if not pin["new"]:
                echo(f"  was: {visible_line(pin['description'])[:300]}")
            echo(f"  is:  {visible_line(pin['changed_description'])[:300]}")
            place = "" if tenant is None else f" --tenant {tenant}"
            echo(f"  to accept it: toolcaddie mcp accept {row['name']} {visible_line(pin['tool'])}{place}")


async def _status(settings: Settings, name: str | None, tenant: str | None) -> list[dict[str, Any]]:
    async with opened(settings) as database:
        settings, parts = place_of(settings, host_parts(settings, database.store, lambda status: None), tenant)
        sources = servers_of(settings, parts) if name is None else [server_of(settings, parts, name)]
        return list(await asyncio.gather(*(_row(source, PinStore(parts.store)) for source in sources)))


async def _row(source: McpSource, pins: PinStore) -> dict[str, Any]:
    state, reason = "failed", ""
    try:
        await source.open()
        state = "connected"
    except ToolcaddieError as error:
        reason = str(error)
    health = source.health
    await source.close()
    return {
        "name": source.name,
        "state": state,
        "reason": reason,
        "place": source.server.place,
        "protocol": health.version,
        "server": health.server_name,
        "tools": health.tools,
        "problems": list(health.problems),
        "quarantined": shown_pins(await pins.read(source.name)),
    }
