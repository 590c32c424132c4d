"""A seat: the sender of an MCP request, and what the sender declared beside it. `door.py` puts it into the ASGI scope, and
`server.py` reads it."""

from __future__ import annotations

from dataclasses import dataclass

from toolcaddie.core.control import Principal
from toolcaddie.core.storage import ApiKey

SEAT = "toolcaddie.seat"
"""Key of the seat in an ASGI scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The sender of a request."""

    principal: Principal
    task: str = ""
    """The task that the client declared; empty: none."""
    session: str = ""
    """The id of the client's session; empty: it has none."""
    key: ApiKey | None = None
    """The API key that the request came with; None: it came with a token, or needs no key."""
