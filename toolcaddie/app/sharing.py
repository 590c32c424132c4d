"""Checks that several processes can serve requests together with the settings, for `toolcaddie serve --workers N`.

A worker is one of these processes. Whatever one of them stores, such as a conversation, the others must find.
"""

from __future__ import annotations

import sys

from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.storage.database import is_in_memory
from toolcaddie.util.replacing import replace


def shared(settings: Settings) -> Settings:
    """Returns the settings for several workers; with one worker they are unchanged. Raises `ConfigError` for settings with which
    the workers would not find what the others stored."""
    if (workers := settings.server.workers) == 1:
        return settings
    several = f"server.workers is {workers} (--workers), and"
    if sys.platform == "win32":
        raise ConfigError(f"{several} Windows cannot share a port between processes; start one process there")
    if is_in_memory(settings.database_url):
        raise ConfigError(
            f"{several} the database is in memory, where each worker would have its own; name a file or PostgreSQL "
            "(database_url)"
        )
    if settings.store is not None and settings.store.type == "memory":
        raise ConfigError(
            f"{several} [store] type = 'memory' keeps documents in one process; leave [store] out, so that they are in "
            "the database"
        )
    if settings.mcp.enabled and settings.mcp.sessions:
        raise ConfigError(
            f"{several} a session of an MCP client lives in one process; leave mcp.sessions out or set it to false, or "
            "start one worker"
        )
    return replace(settings, mcp=replace(settings.mcp, sessions=False))
