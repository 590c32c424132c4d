"""The state of each source of tools, as the process knows it; nothing is asked of the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.app.build import Assembled
from toolcaddie.core.events import SourceStatus
from toolcaddie.ports import OpenableSource, ToolSource
from toolcaddie.sources.mcp import McpSource
from toolcaddie.sources.mcp.pins import Pin, PinStore
from toolcaddie.sources.wrapping import all_sources


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A source now."""

    name: str
    kind: str
    """Such as `McpSource`."""
    tools: int
    """Number of its tools."""
    connects: bool
    """True if it connects to something."""
    status: str
    """`ready`, for one that connects to nothing; else its last state."""
    changed: float | None
    """The moment of that state, in seconds since the epoch; None: it has not changed since the start."""
    detail: str
    """The last failure, or the reason for the state of the connection; empty: there is none."""
    place: str = ""
    """Of an MCP server: its address or command."""
    protocol: str = ""
    problems: Sequence[str] = ()
    """Problems of the definitions that it sent."""
    quarantined: int = 0
    """Number of its definitions that wait for a person."""


async def states_of(parts: Assembled) -> Sequence[SourceState]:
    """Returns the states of all sources."""
    last = {status.source: status for status in parts.source_states()}
    moments, pins = parts.source_moments(), PinStore(parts.documents)
    states = []
    for part in parts.runtime.source.wrapped:
        server = mcp_of(part)
        waiting = {} if server is None else (await pins.read(server.name)).quarantined
        states.append(_state(part, server, last.get(part.name), moments.get(part.name), waiting))
    return states


def mcp_of(part: ToolSource) -> McpSource | None:
    """Returns the MCP server behind a source; None: it is none."""
    return next((source for source in all_sources(part) if isinstance(source, McpSource)), None)


def _state(
    part: ToolSource,
    server: McpSource | None,
    last: SourceStatus | None,
    changed: float | None,
    waiting: Mapping[str, Pin],
) -> SourceState:
    innermost = list(all_sources(part))[-1]
    health = None if server is None else server.health
    connects = isinstance(part, OpenableSource)
    return SourceState(
        name=part.name,
        kind=type(innermost).__name__,
        tools=len(part.tools()),
        connects=connects,
        status=last.status if last is not None else ("closed" if connects else "ready"),
        changed=changed,
        detail=(last.detail if last is not None else "") or ("" if health is None else health.reason),
        place="" if server is None else server.server.place,
        protocol="" if health is None else health.version,
        problems=() if health is None else tuple(health.problems),
        quarantined=len(waiting),
    )
