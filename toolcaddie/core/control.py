"""Who asks, and what policy says of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The one who asks."""

    id: str = "local"
    bot: str | None = None
    role: str | None = None
    tenant: str = "default"

    @property
    def owner(self) -> tuple[str, str]:
        """The one key under which things of a principal are kept: tenant and id. Bot and role are no part of it: the same
        person keeps their conversations and runs under each of them."""
        return (self.tenant, self.id)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a call may run. `ask`: only if a person approves it."""

    verdict: Literal["allow", "deny", "ask"]
    reason: str = ""
    rule: str = "default"
    policy_version: str = ""
    """The version of the policy that decided; filled in at the gate."""
