"""`toolcaddie mcp serve`: the tools of the catalogs for the MCP client that starts this command as a process."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import click

from toolcaddie.app.build import assembled
from toolcaddie.app.settings import MCPSettings, Settings
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.options import (
    approve_option,
    bot_option,
    box_option,
    catalog_option,
    database_option,
    preset_option,
    settings_of,
)
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.mcp.offers import load_offers
from toolcaddie.parts import Secrets
from toolcaddie.util.replacing import replace

_SHORTEST_KEY = 32
"""The smallest number of bytes of a secret that seals states."""

mode_option = click.option(
    "--mode",
    type=click.Choice(["compact", "selected", "all"]),
    help="Tools that a client sees: six tools for the whole catalog, those that fit its task, or all. [default: compact]",
)
five_option = click.option(
    "--five", is_flag=True, help="In mode compact, show the five meta tools of the preset compact."
)
task_option = click.option(
    "--task", metavar="TEXT", help="Task by which mode selected chooses tools before the first search."
)


def mcp_settings(settings: MCPSettings, *, mode: str | None, five: bool, task: str | None = None) -> MCPSettings:
    """Returns the settings of the MCP door with the options of a command; None: the option was not given."""
    changes: dict[str, Any] = {} if mode is None else {"mode": mode}
    if five:
        changes["five"] = True
    if task is not None:
        changes["task"] = task
    return replace(settings, **changes)


def state_key_of(settings: MCPSettings) -> str | None:
    """Returns the secret that seals the state of waiting calls; None: the process makes one. Raises `ConfigError` if its variable
    is not set, or the secret is too short."""
    variable = settings.state_key_env
    if variable is None:
        return None
    secret = Secrets().require(variable, what="the secret of mcp.state_key_env")
    if len(secret.encode()) < _SHORTEST_KEY:
        raise ConfigError(
            f"the secret in {variable} (mcp.state_key_env) is shorter than {_SHORTEST_KEY} bytes; make a longer one"
        )
    return secret


def check_mode(settings: MCPSettings) -> None:
    """Raises `ConfigError` if `five` is set for a mode that has no such tools."""
    if settings.five and settings.mode != "compact":
        raise ConfigError(
            f"mcp.five (--five) belongs to mode compact, and the mode is {settings.mode}; leave one of them out"
        )


@click.command(
    name="serve",
    epilog="\b\nExamples:\n"
    "  toolcaddie mcp serve --catalog gym\n"
    "  toolcaddie mcp serve --catalog python:my_tools --mode all\n"
    "  toolcaddie mcp serve --catalog host --five",
)
@mode_option
@five_option
@task_option
@catalog_option
@box_option
@bot_option
@click.option("--role", metavar="NAME", help="Role of the caller, which decides which tools it may see.")
@preset_option
@approve_option
@database_option
@click.pass_obj
def command(
    common: Common, /, mode: str | None, five: bool, task: str | None, bot: str | None, role: str | None, **flags: Any
) -> None:
    """Serve the tools of the catalogs to one MCP client over stdin and stdout.

    Name this command in the client's settings; the client starts it. Log lines go to stderr.
    """
    settings = settings_of(common, bot=bot, **flags)
    settings = replace(settings, mcp=mcp_settings(settings.mcp, mode=mode, five=five, task=task))
    asyncio.run(_serve(settings, Principal(bot=bot, role=role, channel="mcp")))


async def _serve(settings: Settings, principal: Principal) -> None:
    check_mode(settings.mcp)
    offers, state_key = load_offers(settings.mcp.offers), state_key_of(settings.mcp)
    async with assembled(settings, needs_catalog=settings.mcp.offers is None) as parts:
        # Loading the package `mcp` takes most of a second, so the sources are opened first and report their errors at once.
        stdio = importlib.import_module("toolcaddie.doors.mcp.stdio")
        await stdio.serve_stdio(
            parts.runtime, parts.documents, settings.mcp, offers, principal=principal, state_key=state_key
        )
