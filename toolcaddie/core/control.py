"""The principal of a request, and the policy's decision on a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The person or program that makes a request."""

    id: str = "local"
    bot: str | None = None
    role: str | None = None
    tenant: str = "default"

    @property
    def owner(self) -> tuple[str, str]:
        """Key of everything stored for a principal: tenant and id. Bot and role are no part of it, so that a person has the same
        conversations and runs with each of them."""
        return (self.tenant, self.id)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The policy's decision on a call. `ask`: it runs only if a person approves it."""

    verdict: Literal["allow", "deny", "ask"]
    reason: str = ""
    rule: str = "default"
    policy_version: str = ""
    """Version of the policy that decided; set at the gate."""
