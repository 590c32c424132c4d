"""Serves requests in one process: opens the parts and the doors, and runs the HTTP server until a signal stops it."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable, MutableSequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from toolcaddie import __version__
from toolcaddie.app.build import assembled
from toolcaddie.app.counting import counted
from toolcaddie.app.evaluations import KIND as EVALUATION
from toolcaddie.app.evaluations import Evaluations, evaluation_kind
from toolcaddie.app.exporting import exporting
from toolcaddie.app.following import followed
from toolcaddie.app.pruning import pruned
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.accepting import Share
from toolcaddie.doors.cli.draining import Draining
from toolcaddie.doors.cli.serve.doors import gateway_of, opened_doors
from toolcaddie.doors.cli.serve.frames import traced, until_cut
from toolcaddie.doors.cli.serve.server import Server
from toolcaddie.doors.gateway.access import is_loopback
from toolcaddie.doors.gateway.app import MODEL_DOORS
from toolcaddie.doors.gateway.measured import Measured
from toolcaddie.telemetry.processes import ProcessMetrics, workers_of

COLLECTIONS = (20_000, 20, 20)
"""Thresholds of the garbage collector. Requests make few cycles, and with Python's own 700 new objects a collection comes several
times in each request."""
SWITCH_SECONDS = 0.0005
"""Seconds after which a computing thread lets the event loop have a turn; Python's own value is ten times as long, and the loop
waits that long at each of its system calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonParts:
    """Things that all workers of one server have in common, in addition to settings and port."""

    state_key: str
    """The secret that seals the state of waiting MCP calls."""
    metrics: str
    """The folder of the metrics."""
    counts: MutableSequence[int]
    """The number of connections of each worker."""
    reloaded: Any
    """A number in shared memory, `reloaded.value`: 1 once the sources have been reloaded. A worker that starts later reads the
    settings again, so that it has the sources of the others."""


async def serve(
    settings: Settings,
    read: Callable[[], Settings],
    config: uvicorn.Config,
    listener: socket.socket,
    announce: Callable[..., None],
    common: CommonParts | None,
    share: Share | None,
    *,
    prunes: bool,
) -> None:
    """Opens the runtime and the database, and serves requests until a signal stops the server.

    `read` returns the settings of this moment, for a reload at SIGHUP. `listener`: the bound socket. `announce` is called
    with the facts to announce once the server listens. `common`: what all workers have in common, and `share` this worker's part;
    None: this is the only process. `prunes`: True if this process removes old runs.
    """
    async with (
        exporting(settings.telemetry, version=__version__) as providers,
        assembled(settings, clients_retry=True, providers=providers) as parts,
        AsyncExitStack() as stack,
    ):
        if prunes:
            await stack.enter_async_context(pruned(parts.database, settings.storage))
        if settings.console.enabled:
            await stack.enter_async_context(counted(parts.database.figures, parts.runtime.prices_of))
        needs_key = await parts.keys.any()
        _refuse_open_door(settings.server.host, needs_key=needs_key)
        doors = await stack.enter_async_context(opened_doors(parts, None if common is None else common.state_key))
        metrics = None if common is None else _joined_metrics(common.metrics)
        parts.work.queue.add({EVALUATION: evaluation_kind(Evaluations(parts.documents), settings)})
        app = gateway_of(parts, doors, metrics)
        await stack.enter_async_context(parts.work.serving())
        stack.push_async_callback(app.close)
        draining = Draining()
        shown = parts.registry if metrics is None else metrics
        shown.register(ProcessMetrics() if common is None else ProcessMetrics(partial(workers_of, common.metrics)))
        measured = Measured(app, parts.registry, routes=(*MODEL_DOORS, *doors.mcp.paths))
        whole = traced(measured, providers, doors.mcp.paths)
        config.app = until_cut(whole, draining, trusted=config.forwarded_allow_ips)
        await stack.enter_async_context(followed(parts, read, reloaded=partial(_note_reload, common)))
        _settle_down()
        server = Server(
            config,
            started=lambda: announce(parts, _url(listener), needs_key=needs_key),
            stopping=doors.mcp.end_streams,
            cutting=parts.runtime.begin_shutdown,
            draining=draining.begin,
            drain_seconds=settings.server.drain,
            share=share,
        )
        await server.serve(sockets=[listener] if share is None else [])


def _settle_down() -> None:
    """Sets up the interpreter for serving. The objects loaded so far stay for good; scanning them for garbage would stop all
    requests for a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    sys.setswitchinterval(SWITCH_SECONDS)


def _note_reload(common: CommonParts | None) -> None:
    """Notes for workers that start later that the settings file was read again."""
    if common is not None:
        common.reloaded.value = 1


def _joined_metrics(folder: str) -> CollectorRegistry:
    """Returns a registry with the sums of the metrics of all workers, including those that have ended."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return registry


def _refuse_open_door(host: str, *, needs_key: bool) -> None:
    """Raises `ConfigError` if other machines can reach the server and no API key exists."""
    if not is_loopback(host) and not needs_key:
        raise ConfigError(
            f"--host {host} can be reached from other machines and there is no API key yet; make one with "
            "`toolcaddie keys add NAME`, or listen on 127.0.0.1"
        )


def _url(listener: socket.socket) -> str:
    """Returns the address of the server, with the port that was chosen for port 0."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
