"""MCP servers as tool sources: their tools, and if wanted their resources and prompts, become tools of the catalog.

    [[source]]
    type = "mcp"
    name = "files"
    command = "npx"
    args = ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]

`docs/mcp.md` describes all settings. This file imports nothing of the protocol's package, which is slow to load.
"""

from __future__ import annotations

from typing import Unpack

from typing_extensions import TypedDict

from toolcaddie.core.numbers import Positive, Seconds
from toolcaddie.parts import Parts, Variable
from toolcaddie.sources.mcp.server import Elicitation, McpServer, NewTools, OAuth, Protocol
from toolcaddie.sources.mcp.source import Health, McpSource


class Options(TypedDict, total=False):
    """The optional settings of a server; `McpServer` describes them."""

    url: str
    command: str
    args: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    env_from: dict[str, Variable]
    headers: dict[str, str]
    headers_from: dict[str, Variable]
    token_env: Variable
    oauth: OAuth
    protocol: Protocol
    trusted: bool
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    prefix: str
    category: str
    resources: bool
    prompts: bool
    elicitation: Elicitation
    new_tools: NewTools
    roots: tuple[str, ...]
    timeout: Seconds
    connect_seconds: Seconds
    refresh_seconds: Seconds
    concurrency: Positive
    hedge_after: Seconds
    max_tools: Positive


def mcp(*, name: str, parts: Parts, **options: Unpack[Options]) -> McpSource:
    """Returns the source of an MCP server. Raises `ConfigError` for settings that contradict each other."""
    return McpSource(McpServer(name=name, **options), parts)


__all__ = ["Health", "McpServer", "McpSource", "OAuth", "mcp"]
