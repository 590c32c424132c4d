"""The settings of the console."""

from __future__ import annotations

from msgspec import Struct


class ConsoleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The web page at `/console`, and the roles of API keys that may do something there."""

    enabled: bool = True
    viewers: tuple[str, ...] = ("viewer",)
    """Roles that may read everything of their tenant."""
    operators: tuple[str, ...] = ("operator",)
    """Roles that may also act: answer questions, run requests, settle calls."""
    admins: tuple[str, ...] = ("admin",)
    """Roles that may also change keys, policy and sources."""
