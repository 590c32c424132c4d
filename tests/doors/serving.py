"""A gateway on a real socket for tests: the product's own app, an upstream that is strict, a database on disk."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import openai
import uvicorn
from prometheus_client import CollectorRegistry

from tests.databases import database_url
from toolcaddie.app.queues import QueueOnDemand
from toolcaddie.app.settings import GatewaySettings, Idempotency, JobSettings
from toolcaddie.app.settings.traffic import TrafficSettings
from toolcaddie.audit.trail import Trail
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.key_limits import NO_LIMITS, KeyLimits
from toolcaddie.doors.gateway.app import MODEL_DOORS, create_app
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.ports import Provider
from toolcaddie.ports.wires import DoorWire
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.runtime import Runtime
from toolcaddie.storage.database import Database
from toolcaddie.storage.engines import BUSY_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Gateway that a test talks to, with the parts that it looks at afterwards."""

    base_url: str
    client: openai.AsyncOpenAI
    database: Database
    runtime: Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    runtime: Runtime
    documents: Any
    event_log: Any
    keys: Any
    meter: Any
    key_limits: Callable[[], KeyLimits]
    registry: CollectorRegistry
    own_upstream_key: bool


@contextlib.asynccontextmanager
async def served(app: Any, http: Any = "auto") -> AsyncIterator[str]:
    """The app on a port of 127.0.0.1; gives its address."""
    config = uvicorn.Config(app, http=http, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # With the protocol named, asyncio turns off the delay of small writes, as the product does for its connections.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    await server.startup(sockets=[listening])
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = True
        await server.shutdown(sockets=[listening])


@contextlib.asynccontextmanager
async def gateway(
    folder: Path,
    upstream: str | Provider,
    *,
    sources: Sequence[Any] = (),
    own_upstream_key: bool = True,
    forwards: bool = True,
    busy: float = BUSY_SECONDS,
    idempotency: Idempotency | None = None,
    http: Any = "auto",
    doors: Mapping[str, DoorWire] = MODEL_DOORS,
    bounds: Bounds = DEFAULT,
    settings: GatewaySettings | None = None,
    traffic: TrafficSettings | None = None,
    key_limits: KeyLimits = NO_LIMITS,
    clock: Callable[[], float] = time.time,
    durable: bool = False,
    jobs: JobSettings | None = None,
    **runtime: Any,
) -> AsyncIterator[Gateway]:
    """`upstream` is a base address or a provider. `http`: what reads the connections, as uvicorn takes it. `durable`: it has a
    queue of durable work, of which there may be one in a process.
    `busy`: how long a write waits for a locked database. The database in `folder` outlives the gateway: open
    it twice to see a restart."""
    provider = OpenAIChat(upstream, "test-key" if own_upstream_key else None) if isinstance(upstream, str) else upstream
    url = database_url(folder / "gateway.sqlite")
    async with Database(url, busy=busy, clock=clock) as database:
        made = Runtime(
            provider=provider,
            sources=sources,
            trail=Trail(database.events),
            documents=database.store,
            bounds=bounds,
            **runtime,
        )
        parts = Parts(
            runtime=made,
            documents=database.store,
            event_log=database.events,
            keys=database.keys,
            meter=database.meter,
            key_limits=lambda: key_limits,
            registry=CollectorRegistry(),
            own_upstream_key=own_upstream_key,
        )
        shared = Traffic(
            traffic or TrafficSettings(),
            bounds=bounds,
            registry=parts.registry,
            stopping=lambda: made.stopping,
        )
        queue = QueueOnDemand(url, database) if durable else None
        app = create_app(
            parts,
            forwards=forwards,
            idempotency=idempotency or Idempotency(),
            doors=doors,
            bounds=bounds,
            settings=settings or GatewaySettings(),
            traffic=shared,
            clock=clock,
            queue=queue,
            jobs=jobs or JobSettings(),
        )
        async with served(app, http) as address:
            client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0, timeout=20)
            try:
                yield Gateway(base_url=address, client=client, database=database, runtime=made)
            finally:
                await client.close()
                with anyio.CancelScope(shield=True):
                    await app.close()
                    if queue is not None:
                        await queue.close()
                    await made.close()
