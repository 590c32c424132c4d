"""The MCP door on a real socket, in the process of the test: with a clock that the test moves, and a database to look at."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import mcp.client.streamable_http as transport
from mcp import Client
from prometheus_client import CollectorRegistry

from tests.databases import database_url
from tests.doors.serving import served
from toolcaddie import PracticeModel
from toolcaddie.app.settings import MCPSettings
from toolcaddie.app.settings.traffic import TrafficSettings
from toolcaddie.audit.trail import Trail
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.bounds import DEFAULT
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import NO_LIMITS, KeyLimits
from toolcaddie.doors.gateway.access import Access
from toolcaddie.doors.gateway.limiting import Limiter
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.doors.mcp.door import MCPDoor
from toolcaddie.doors.mcp.offers import Offers
from toolcaddie.runtime import Runtime
from toolcaddie.storage.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Door that a test talks to, with the parts that it looks at afterwards."""

    url: str
    database: Database
    runtime: Runtime

    async def key(self, name: str, **options: Any) -> str:
        """Adds a key of a principal of the same name, and returns its secret."""
        return (await self.database.keys.add(name, Principal(id=name), **options))[1]

    @contextlib.asynccontextmanager
    async def client(self, mode: str, *, secret: str = "", **options: Any) -> AsyncIterator[Client]:
        """A client of one generation of the protocol: `legacy`, or `2026-07-28`."""
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=20) as http,
            Client(transport.streamable_http_client(self.url, http_client=http), mode=mode, **options) as client,
        ):
            yield client


@contextlib.asynccontextmanager
async def mcp_door(
    folder: Path,
    sources: Sequence[Any],
    *,
    settings: MCPSettings | None = None,
    key_limits: KeyLimits = NO_LIMITS,
    traffic: TrafficSettings | None = None,
    clock: Callable[[], float] = time.time,
    **runtime: Any,
) -> AsyncIterator[Door]:
    """The door, in mode `all` unless `settings` say otherwise. Two doors with one `folder` are two replicas."""
    async with Database(database_url(folder / "door.sqlite"), clock=clock) as database:
        options = {"policy": CedarPolicy(), "provider": PracticeModel(), **runtime}
        async with (
            Runtime(
                sources=sources, documents=database.store, trail=Trail(database.events), clock=clock, **options
            ) as made,
            MCPDoor(
                made,
                database.store,
                Access(database.keys),
                settings or MCPSettings(mode="all"),
                Offers(),
                bounds=DEFAULT,
                state_key="s" * 32,
                limiter=Limiter(database.meter, made, defaults=lambda: key_limits, clock=clock),
                traffic=Traffic(
                    traffic or TrafficSettings(),
                    registry=CollectorRegistry(),
                    stopping=lambda: made.stopping,
                ),
            ) as door,
            served(door) as address,
        ):
            yield Door(url=f"{address}/mcp", database=database, runtime=made)
            door.end_streams()
            await asyncio.sleep(0)


async def says(client: Client, name: str, /, **arguments: Any) -> str:
    """Calls a tool and returns the text of its result."""
    text: str = (await client.call_tool(name, arguments)).content[0].text
    return text
