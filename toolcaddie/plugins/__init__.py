"""Parts that other packages bring, and catalogs by name."""

from __future__ import annotations

from toolcaddie.plugins.found import (
    CATALOGS,
    EMBEDDERS,
    GROUPS,
    META_TOOLS,
    PROVIDERS,
    RANKERS,
    SINKS,
    Plugin,
    discover,
    load,
)
from toolcaddie.plugins.specs import WrapFunctions, load_catalog
from toolcaddie.sources.definitions import DefinitionSource

__all__ = [
    "CATALOGS",
    "EMBEDDERS",
    "GROUPS",
    "META_TOOLS",
    "PROVIDERS",
    "RANKERS",
    "SINKS",
    "DefinitionSource",
    "Plugin",
    "WrapFunctions",
    "discover",
    "load",
    "load_catalog",
]
