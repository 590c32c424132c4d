"""`toolcaddie serve`: runs the gateway. It opens the socket, starts the server, and shuts it down after a signal."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import click

from toolcaddie.app.build import Assembled
from toolcaddie.app.settings import DEFAULT_FILE, Settings
from toolcaddie.app.sharing import shared
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.options import (
    approve_option,
    box_option,
    catalog_option,
    database_option,
    model_option,
    preset_option,
    settings_of,
    upstream_options,
)
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.serve.processes import serve_alone, serve_with_workers
from toolcaddie.doors.cli.welcome import welcome
from toolcaddie.util.replacing import replace

_BACKLOG = 2048
"""The largest number of connections that wait to be accepted."""

mcp_mode_option = click.option(
    "--mcp-mode",
    type=click.Choice(["compact", "selected", "all"]),
    help="Tools that MCP clients see at /mcp: six tools for the whole catalog, those that fit, or all. [default: compact]",
)


@click.command(
    name="serve",
    epilog="\b\nExamples:\n"
    "  toolcaddie serve --catalog gym\n"
    "  toolcaddie serve --upstream https://api.openai.com/v1 --upstream-key-env KEY\n"
    "  toolcaddie serve --model anthropic:claude-sonnet-5-5\n"
    "  toolcaddie serve --host 0.0.0.0 --port 8080 --catalog python:my_tools\n"
    "  toolcaddie serve --box files,exec,web\n"
    "  toolcaddie serve --catalog host --preset compact",
)
@click.option("--host", help="Address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0: any free port. [default: 8321]")
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Processes that serve requests. [default: 1]")
@model_option
@upstream_options
@catalog_option
@box_option
@preset_option
@mcp_mode_option
@approve_option
@database_option
@json_option
@click.pass_obj
def command(common: Common, /, as_json: bool, mcp_mode: Any, **flags: Any) -> None:
    """Run the OpenAI-compatible gateway.

    It selects tools for the model of --model or --upstream. Without a model, the practice model answers, offline.
    """
    read = partial(_settings, _with_file(common), mcp_mode, flags)
    settings = read()
    announcement = partial(_announcement, config=common.config, as_json=as_json)
    with closing(_listen(settings.server.host, settings.server.port)) as listener:
        if settings.server.workers == 1:
            serve_alone(settings, read, listener, lambda *about, **more: _announce(announcement(*about, **more)))
        else:
            serve_with_workers(settings, read, listener, announcement, _announce)
    if not as_json:
        note("stopped")


def _with_file(common: Common) -> Common:
    """Returns the options with the settings file of this moment by name. If a file that the server started with is absent at a
    reload, that is then an error, and not a server without policy and limits."""
    default = Path(DEFAULT_FILE)
    return replace(common, config=default) if common.config is None and default.exists() else common


def _settings(common: Common, mcp_mode: Any, flags: Mapping[str, Any]) -> Settings:
    """Returns the settings of the file with the options of the command. Called again when sources are reloaded."""
    settings = settings_of(common, quiet=False, **flags)
    settings = settings if mcp_mode is None else replace(settings, mcp=replace(settings.mcp, mode=mcp_mode))
    return shared(settings)


def _listen(host: str, port: int) -> socket.socket:
    """Returns a bound socket. The server binds it before it opens anything else, so that a port in use is reported first."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except socket.gaierror as error:
        raise ConfigError(f"--host {host}: {error.strerror}; use an address of this machine, or 127.0.0.1") from error
    except OSError as error:
        raise CommandFailed(
            f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}; stop what listens there, or choose "
            "another --port"
        ) from error


def _announcement(
    parts: Assembled, url: str, *, needs_key: bool, config: Path | None, as_json: bool
) -> str | Mapping[str, Any]:
    """Returns the address, in a text with examples or as JSON. `config`: the file of `--config`."""
    if as_json:
        tools = len(parts.runtime.source.snapshot())
        return {"url": url, "base_url": f"{url}/v1", "provider": parts.provider.name, "tools": tools}
    return welcome(parts, url, needs_key=needs_key, config=config)


def _announce(announcement: str | Mapping[str, Any]) -> None:
    """Prints the announcement of a server that has started."""
    if isinstance(announcement, str):
        echo(announcement)
    else:
        print_json(announcement)
