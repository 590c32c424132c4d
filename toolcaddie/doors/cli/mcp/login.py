"""`toolcaddie mcp login`: logs a person in at an MCP server, in the browser."""

from __future__ import annotations

import asyncio
import importlib
import webbrowser

import click

from toolcaddie.app.build import opened
from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.settings import Settings
from toolcaddie.app.tenants import at_tenant
from toolcaddie.core.control import Principal
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.mcp.servers import server_of, servers_of
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import note
from toolcaddie.doors.cli.root import Common


@click.command(
    name="login",
    epilog="\b\nExamples:\n  toolcaddie mcp login github\n  toolcaddie mcp login github --principal ada --no-browser",
)
@click.argument("server")
@click.option("--principal", metavar="ID", default="local", help="Whose login it is. [default: the operator's]")
@click.option(
    "--tenant", metavar="NAME", default="default", help="Tenant of that principal. SERVER may be in its own file."
)
@click.option("--no-browser", is_flag=True, help="Only print the address; open no browser.")
@database_option
@click.pass_obj
def command(
    common: Common, server: str, principal: str, tenant: str, no_browser: bool, database_url: str | None
) -> None:
    """Log in at the MCP server SERVER of the settings. The tokens are stored in the database and refreshed."""
    settings = settings_of(common, database_url=database_url)
    asyncio.run(_login(settings, server, Principal(id=principal, tenant=tenant), browser=not no_browser))
    echo(f"logged in at {server}")


async def _login(settings: Settings, name: str, principal: Principal, *, browser: bool) -> None:
    def show(url: str) -> None:
        note("open this address to log in:")
        echo(url)
        if browser:
            webbrowser.open(url)

    # Loaded here because the protocol's package takes most of a second.
    module = importlib.import_module("toolcaddie.sources.mcp.login")
    async with opened(settings) as database:
        parts = host_parts(settings, database.store)
        own = at_tenant(settings, parts, principal.tenant)
        if own is not None and any(each.name == name for each in servers_of(*own)):
            settings, parts = own
        await module.login(server_of(settings, parts, name).server, parts, principal, show)
