"""`toolcaddie mcp accept`: takes changed and new tools of an MCP server out of quarantine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RequestError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.mcp.servers import place_of, server_of, tenant_option
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, print_json
from toolcaddie.doors.cli.root import Common
from toolcaddie.sources.mcp.pins import PinStore
from toolcaddie.util.suggest import did_you_mean


@click.command(
    name="accept",
    epilog="\b\nExamples:\n  toolcaddie mcp accept github\n  toolcaddie mcp accept github create_issue\n"
    "  toolcaddie mcp accept crm --tenant acme",
)
@click.argument("server")
@click.argument("tool", required=False)
@tenant_option
@database_option
@json_option
@click.pass_obj
def command(
    common: Common, server: str, tool: str | None, tenant: str | None, database_url: str | None, as_json: bool
) -> None:
    """Accept the changed or new definition of TOOL, or all that are in quarantine at SERVER.

    `toolcaddie mcp status` shows them. A running `serve` offers the tools again within seconds.
    """
    names = asyncio.run(_accept(settings_of(common, database_url=database_url), server, tool, tenant))
    if as_json:
        print_json({"server": server, "accepted": list(names)})
    else:
        echo(f"accepted: {', '.join(names)}" if names else "nothing is in quarantine")


async def _accept(settings: Settings, server: str, tool: str | None, tenant: str | None) -> Sequence[str]:
    async with existing_or_empty(settings) as database:
        settings, parts = place_of(settings, host_parts(settings, database.store), tenant)
        server_of(settings, parts, server)
        pins = PinStore(parts.store)
        waiting = list((await pins.read(server)).quarantined)
        if tool is not None and tool not in waiting:
            advice = did_you_mean(tool, waiting) if waiting else "nothing is in quarantine"
            raise RequestError(f"no tool {tool!r} of the MCP server {server!r} is in quarantine; {advice}")
        return await pins.accept(server, tool)
