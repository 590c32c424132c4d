"""The sandboxes by their names in the settings."""

from __future__ import annotations

import importlib
import platform
import sys
from typing import Annotated, Any, Unpack

from msgspec import Meta

from toolcaddie.core.errors import ConfigError
from toolcaddie.ports import Sandbox
from toolcaddie.sandbox.commands import Most

UserNumber = Annotated[int, Meta(ge=1, le=2**31)]


def wall(*, uid: UserNumber = 65532, **most: Unpack[Most]) -> Sandbox:
    """Returns a sandbox that holds.

    `uid`: the user of commands if the server runs as root; no other program should use it. The other settings are the most that
    any command may use. Raises `ConfigError` on a machine that cannot hold it.
    """
    return _made("wall", "Wall", uid=uid, most=most)


def plain(**most: Unpack[Most]) -> Sandbox:
    """Returns a sandbox that protects nothing. Its settings are the most that any command may use."""
    return _made("plain", "Plain", most=most)


def _made(module: str, name: str, **options: Any) -> Sandbox:
    """Makes a sandbox. Its module is imported here because it can be imported on Linux only."""
    if sys.platform != "linux":
        raise ConfigError(
            f"commands run in a sandbox on Linux only, and this is {platform.system()}; remove the tools that run commands"
        )
    sandbox: Sandbox = getattr(importlib.import_module(f"toolcaddie.sandbox.{module}"), name)(**options)
    return sandbox
