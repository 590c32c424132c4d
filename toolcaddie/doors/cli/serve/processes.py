"""The processes of a server: this one alone, or several workers that share its socket."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
from collections.abc import Callable
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import structlog
import uvicorn
from prometheus_client.multiprocess import mark_process_dead

from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.doors.cli.accepting import Share
from toolcaddie.doors.cli.mcp.serve import state_key_of
from toolcaddie.doors.cli.options import (
    configure_log,
)
from toolcaddie.doors.cli.serve.server import CUT_SECONDS, GRACE_SECONDS
from toolcaddie.doors.cli.serve.serving import CommonParts, serve
from toolcaddie.doors.cli.workers import SPAWN, Report, Workers, parent_is_gone
from toolcaddie.doors.gateway.app import MODEL_DOORS
from toolcaddie.doors.gateway.protocol import bounded_protocol, more_files
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_KEY_BYTES = 32
"""Random bytes of the secret that seals the state of waiting MCP calls, if the settings name none."""
_METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that makes the package prometheus_client count in files, so that any worker can add the numbers of all."""


def serve_alone(
    settings: Settings,
    read: Callable[[], Settings],
    listener: socket.socket,
    announce: Callable[..., None],
    *,
    common: CommonParts | None = None,
    share: Share | None = None,
    prunes: bool = True,
) -> None:
    """Serves requests in this process until a signal stops the server. For the parameters, see `serve`."""
    config = uvicorn.Config(
        _no_app,
        loop="auto",
        http=bounded_protocol(settings.bounds, MODEL_DOORS),
        ws="none",
        log_config=None,
        log_level="warning",
        lifespan="off",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `until_cut` reads them where there are any
        timeout_graceful_shutdown=GRACE_SECONDS + CUT_SECONDS,
    )
    more_files(settings.bounds.connections)  # each connection needs an open file
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(serve(settings, read, config, listener, announce, common, share, prunes=prunes))


def serve_with_workers(
    settings: Settings,
    read: Callable[[], Settings],
    listener: socket.socket,
    announcement: Callable[..., Any],
    announce: Callable[[Any], None],
) -> None:
    """Serves requests in several processes until a signal stops them all. `announcement` returns the text about a server that has
    started, in the worker; `announce` prints it, here."""
    state_key = state_key_of(settings.mcp) or secrets.token_urlsafe(_KEY_BYTES)
    with TemporaryDirectory(prefix="toolcaddie-metrics-", ignore_cleanup_errors=True) as metrics:
        os.environ[_METRICS_VARIABLE] = metrics  # workers inherit it, and count in files of this folder
        counts = SPAWN.RawArray("q", settings.server.workers)
        common = CommonParts(state_key=state_key, metrics=metrics, counts=counts, reloaded=SPAWN.RawValue("b", 0))
        workers = Workers(
            _work,
            (settings, read, listener, common, announcement),
            settings.server.workers,
            announce=announce,
            stopping=listener.close,
            lost=partial(mark_process_dead, path=metrics),
        )
        asyncio.run(workers.run())


def _work(
    number: int,
    report: Report,
    settings: Settings,
    read: Callable[[], Settings],
    listener: socket.socket,
    common: CommonParts,
    announcement: Callable[..., Any],
) -> None:
    """Serves requests in a worker. The first one prunes for all."""
    configure_log(settings, level=settings.log.level)
    structlog.contextvars.bind_contextvars(worker=number)
    settings = _reloaded(settings, read) if common.reloaded.value else settings

    def ready(*about: Any, **more: Any) -> None:
        report(announcement(*about, **more))

    try:
        share = Share(listener=listener, counts=common.counts, place=number - 1)
        serve_alone(settings, read, listener, ready, common=common, share=share, prunes=number == 1)
    finally:
        if parent_is_gone():
            shutil.rmtree(common.metrics, ignore_errors=True)  # otherwise the parent removes it


def _reloaded(settings: Settings, read: Callable[[], Settings]) -> Settings:
    """Returns the settings with the sources, the policy and the limits of this moment; unchanged if they cannot be read, which is
    logged."""
    try:
        now = read()
    except ToolcaddieError as error:
        log.error("sources_not_reloaded", error=str(error))
        return settings
    return replace(settings, catalogs=now.catalogs, source=now.source, policy=now.policy, key_limits=now.key_limits)


def _no_app() -> None:
    """A placeholder. uvicorn makes the event loop from its configuration, which needs an application; the real application is
    built later, in that loop."""
