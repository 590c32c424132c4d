"""The principal (the person or program behind a request), and the policy's decision on a tool call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import msgspec

from toolcaddie.core.errors import ConfigError

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The person or program that makes a request."""

    id: str = "local"
    bot: str | None = None
    role: str | None = None
    tenant: str = "default"
    channel: str | None = None
    """The way in by which the request came, such as `gateway`, `mcp` or `chat`; None: the application uses the library."""

    @property
    def owner(self) -> tuple[str, str]:
        """Key of everything that is stored for a principal: tenant and id. It does not contain bot, role and channel, so a person
        has the same conversations and runs with every bot, in every role and through every channel."""
        return (self.tenant, self.id)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The policy's decision on a call. `ask`: the call runs only if a person approves it."""

    verdict: Literal["allow", "deny", "ask"]
    reason: str = ""
    rule: str = "default"
    policy_version: str = ""
    """Version of the policy that decided; the gate (`control`) sets it, not the policy itself."""


def checked_tenant(name: str) -> str:
    """Returns the name of a tenant. Raises `ConfigError` if it cannot be the name of a file too."""
    if not _TENANT.match(name):
        raise ConfigError(
            f"{name[:100]!r} cannot be the name of a tenant; use letters, digits, '-', '_' and '.', such as 'acme', at most 64"
        )
    return name
