"""Who asks, and what policy says of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks."""

    id: str = "local"
    bot: str | None = None
    role: str | None = None
    tenant: str = "default"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What policy says of a call."""

    verdict: Literal["allow", "deny", "ask"]
    reason: str = ""
    rule: str = "default"
