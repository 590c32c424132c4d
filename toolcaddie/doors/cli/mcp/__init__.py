"""`toolcaddie mcp`: the commands around the Model Context Protocol."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.lazy import LazyGroup

_PACKAGE = "toolcaddie.doors.cli.mcp"

_COMMANDS = {
    "serve": (f"{_PACKAGE}.serve", "Serve the tools of the catalogs to one MCP client over stdin and stdout."),
}


@click.group(
    name="mcp",
    cls=LazyGroup,
    lazy=_COMMANDS,
    epilog="\b\nExamples:\n  toolcaddie mcp serve --catalog gym",
)
def command() -> None:
    """Serve tools to MCP clients."""
