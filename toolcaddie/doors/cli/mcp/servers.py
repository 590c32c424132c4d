"""The MCP servers of the settings, for the commands that look after them."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.sources.mcp import McpSource
from toolcaddie.sources.named import load_catalog
from toolcaddie.util.suggest import did_you_mean


def servers_of(settings: Settings, parts: Parts) -> Sequence[McpSource]:
    """Returns the MCP servers of the settings, not opened."""
    registry = Registry()
    short = [
        load_catalog(spec, registry=registry, parts=parts) for spec in settings.catalogs if spec.startswith("mcp:")
    ]
    tables = [registry.make("source", "mcp", part.config, parts) for part in settings.source if part.type == "mcp"]
    return [source for source in (*short, *tables) if isinstance(source, McpSource)]


def server_of(settings: Settings, parts: Parts, name: str) -> McpSource:
    """Returns one server of the settings. Raises `ConfigError` if there is none of that name."""
    sources = servers_of(settings, parts)
    for source in sources:
        if source.name == name:
            return source
    names = [source.name for source in sources]
    advice = did_you_mean(name, names) if names else "the settings name no MCP server"
    raise ConfigError(f"there is no MCP server {name!r}; {advice}")
