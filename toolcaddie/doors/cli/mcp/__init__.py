"""`toolcaddie mcp`: the commands around the Model Context Protocol."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.lazy import LazyGroup

_PACKAGE = "toolcaddie.doors.cli.mcp"

_COMMANDS = {
    "serve": (f"{_PACKAGE}.serve", "Serve the tools of the catalogs to one MCP client over stdin and stdout."),
    "status": (
        f"{_PACKAGE}.status",
        "Connect to the MCP servers of the settings, and show their tools and those in quarantine.",
    ),
    "accept": (f"{_PACKAGE}.accept", "Accept the changed definition of TOOL, or of all changed tools of SERVER."),
    "login": (f"{_PACKAGE}.login", "Log in at the MCP server SERVER of the settings."),
}


@click.group(
    name="mcp",
    cls=LazyGroup,
    lazy=_COMMANDS,
    epilog="\b\nExamples:\n  toolcaddie mcp serve --catalog gym",
)
def command() -> None:
    """Serve tools to MCP clients, and look after MCP servers whose tools are used here."""
