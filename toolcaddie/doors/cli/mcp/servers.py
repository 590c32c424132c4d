"""The MCP servers of the settings, for the commands that look after them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from toolcaddie.app.settings import Settings
from toolcaddie.app.tenants import at_tenant
from toolcaddie.core.errors import ConfigError
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.sources.mcp import McpSource
from toolcaddie.sources.named import load_catalog
from toolcaddie.util.suggest import did_you_mean

tenant_option = click.option("--tenant", metavar="NAME", help="Mean the servers in this tenant's own file.")


def place_of(settings: Settings, parts: Parts, tenant: str | None) -> tuple[Settings, Parts]:
    """Returns the settings and the services for the servers of a tenant; None: for those that all tenants share. Raises
    `ConfigError` if the tenant has none of its own."""
    if tenant is None:
        return settings, parts
    own = at_tenant(settings, parts, tenant)
    if own is None:
        raise ConfigError(
            f"the tenant {tenant!r} has no sources of its own: the folder tenants.folder has no file {tenant}.toml"
            if settings.tenants.folder is not None
            else "no tenant has sources of its own, because the settings do not name a folder for them (tenants.folder)"
        )
    return own


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
    if settings.tenants.folder is not None:
        advice += "; for one in the file of a tenant, add --tenant NAME"
    raise ConfigError(f"there is no MCP server {name!r}; {advice}")
