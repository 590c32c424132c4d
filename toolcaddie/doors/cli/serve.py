"""`toolcaddie serve`: runs the gateway. It opens the socket, starts the server, and shuts it down after a signal."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, MutableSequence
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import click
import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from toolcaddie import __version__
from toolcaddie.app.authoring import authorship_of, writes_tools
from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.counting import counted
from toolcaddie.app.evaluations import KIND as EVALUATION
from toolcaddie.app.evaluations import Evaluations, evaluation_kind
from toolcaddie.app.exporting import Providers, exporting
from toolcaddie.app.following import followed
from toolcaddie.app.pruning import pruned
from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.settings import DEFAULT_FILE, MCPSettings, Settings
from toolcaddie.app.sharing import shared
from toolcaddie.core.errors import ConfigError, ToolcaddieError
from toolcaddie.doors.channels.channels import Channels
from toolcaddie.doors.channels.http import ChannelsDoor
from toolcaddie.doors.channels.setup import channels_of
from toolcaddie.doors.cli.accepting import Acceptor, Share
from toolcaddie.doors.cli.draining import Draining
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.mcp.serve import check_mode, state_key_of
from toolcaddie.doors.cli.options import (
    approve_option,
    box_option,
    catalog_option,
    configure_log,
    database_option,
    model_option,
    preset_option,
    settings_of,
    upstream_options,
)
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.welcome import welcome
from toolcaddie.doors.cli.workers import SPAWN, Report, Workers, parent_is_gone
from toolcaddie.doors.console.app import Console
from toolcaddie.doors.console.complete import console_of
from toolcaddie.doors.gateway.access import Access, is_loopback
from toolcaddie.doors.gateway.app import MODEL_DOORS, create_app
from toolcaddie.doors.gateway.limiting import Limiter
from toolcaddie.doors.gateway.measured import Measured
from toolcaddie.doors.gateway.protocol import bounded_protocol, more_files
from toolcaddie.doors.gateway.router import App, Receive, Scope, Send
from toolcaddie.doors.gateway.traced import Traced
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.doors.mcp.door import MCPDoor
from toolcaddie.doors.mcp.oauth import Tokens
from toolcaddie.doors.mcp.offers import load_offers
from toolcaddie.doors.reviewing import Reviews
from toolcaddie.doors.telephony import TelephonyDoor
from toolcaddie.guards.net import operator_client
from toolcaddie.parts import Secrets
from toolcaddie.telemetry.processes import ProcessMetrics, workers_of
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

mcp_mode_option = click.option(
    "--mcp-mode",
    type=click.Choice(["compact", "selected", "all"]),
    help="Tools that MCP clients see at /mcp: six tools for the whole catalog, those that fit, or all. [default: compact]",
)

GRACE_SECONDS = 10
"""Seconds after a signal in which open requests may end; then they are cancelled, and the trail is still written."""

CUT_SECONDS = 3
"""Seconds that cancelled requests have to record their cancellation."""

_TAKEN_PATHS = ("/metrics", "/healthz", "/readyz", "/approvals", "/authored")
"""Paths of the gateway at which nothing else can be mounted."""
_LOOK_SECONDS = 0.02
"""Seconds between two checks of the open connections at shutdown."""
_KEY_BYTES = 32
"""Random bytes of the secret that seals the state of waiting MCP calls, if the settings name none."""
_METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that makes the package prometheus_client count in files, so that any worker can add the numbers of all."""
COLLECTIONS = (20_000, 20, 20)
"""Thresholds of the garbage collector. Requests make few cycles, and with Python's own 700 new objects a collection comes several
times in each request."""
SWITCH_SECONDS = 0.0005
"""Seconds after which a computing thread lets the event loop have a turn; Python's own value is ten times as long, and the loop
waits that long at each of its system calls."""
_PROXY_HEADERS = frozenset({b"x-forwarded-for", b"x-forwarded-proto"})
_BACKLOG = 2048
"""The largest number of connections that wait to be accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """What all workers of one server have in common, in addition to settings and port."""

    state_key: str
    """The secret that seals the state of waiting MCP calls."""
    metrics: str
    """The folder of the metrics."""
    counts: MutableSequence[int]
    """The number of connections of each worker."""
    reloaded: Any
    """A number in shared memory, `reloaded.value`: 1 once the sources have been reloaded. A worker that starts later reads the
    settings again, so that it has the sources of the others."""


@click.command(
    name="serve",
    epilog="\b\nExamples:\n"
    "  toolcaddie serve --catalog gym\n"
    "  toolcaddie serve --upstream https://api.openai.com/v1 --upstream-key-env KEY\n"
    "  toolcaddie serve --model anthropic:claude-sonnet-5-5\n"
    "  toolcaddie serve --host 0.0.0.0 --port 8080 --catalog python:my_tools\n"
    "  toolcaddie serve --box files,exec,web\n"
    "  toolcaddie serve --catalog host --preset compact",
)
@click.option("--host", help="Address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0: any free port. [default: 8321]")
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Processes that serve requests. [default: 1]")
@model_option
@upstream_options
@catalog_option
@box_option
@preset_option
@mcp_mode_option
@approve_option
@database_option
@json_option
@click.pass_obj
def command(common: Common, /, as_json: bool, mcp_mode: Any, **flags: Any) -> None:
    """Run the OpenAI-compatible gateway.

    It selects tools for the model of --model or --upstream. Without a model, the practice model answers, offline.
    """
    read = partial(_settings, _with_file(common), mcp_mode, flags)
    settings = read()
    announcement = partial(_announcement, config=common.config, as_json=as_json)
    with closing(_listen(settings.server.host, settings.server.port)) as listener:
        if settings.server.workers == 1:
            _serve_alone(settings, read, listener, lambda *about, **more: _announce(announcement(*about, **more)))
        else:
            _serve_with_workers(settings, read, listener, announcement)
    if not as_json:
        note("stopped")


def _with_file(common: Common) -> Common:
    """Returns the options with the settings file of this moment by name. If a file that the server started with is absent at a
    reload, that is then an error, and not a server without policy and limits."""
    default = Path(DEFAULT_FILE)
    return replace(common, config=default) if common.config is None and default.exists() else common


def _settings(common: Common, mcp_mode: Any, flags: Mapping[str, Any]) -> Settings:
    """Returns the settings of the file with the options of the command. Called again when sources are reloaded."""
    settings = settings_of(common, quiet=False, **flags)
    settings = settings if mcp_mode is None else replace(settings, mcp=replace(settings.mcp, mode=mcp_mode))
    return shared(settings)


def _serve_alone(
    settings: Settings,
    read: Callable[[], Settings],
    listener: socket.socket,
    announce: Callable[..., None],
    *,
    common: _Common | None = None,
    share: Share | None = None,
    prunes: bool = True,
) -> None:
    """Serves requests in this process until a signal stops the server. For the parameters, see `_serve`."""
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
        proxy_headers=False,  # `_until_cut` reads them where there are any
        timeout_graceful_shutdown=GRACE_SECONDS + CUT_SECONDS,
    )
    more_files(settings.bounds.connections)  # each connection needs an open file
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(settings, read, config, listener, announce, common, share, prunes=prunes))


def _serve_with_workers(
    settings: Settings, read: Callable[[], Settings], listener: socket.socket, announcement: Callable[..., Any]
) -> None:
    """Serves requests in several processes until a signal stops them all."""
    state_key = state_key_of(settings.mcp) or secrets.token_urlsafe(_KEY_BYTES)
    with TemporaryDirectory(prefix="toolcaddie-metrics-", ignore_cleanup_errors=True) as metrics:
        os.environ[_METRICS_VARIABLE] = metrics  # workers inherit it, and count in files of this folder
        counts = SPAWN.RawArray("q", settings.server.workers)
        common = _Common(state_key=state_key, metrics=metrics, counts=counts, reloaded=SPAWN.RawValue("b", 0))
        workers = Workers(
            _work,
            (settings, read, listener, common, announcement),
            settings.server.workers,
            announce=_announce,
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
    common: _Common,
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
        _serve_alone(settings, read, listener, ready, common=common, share=share, prunes=number == 1)
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


async def _serve(
    settings: Settings,
    read: Callable[[], Settings],
    config: uvicorn.Config,
    listener: socket.socket,
    announce: Callable[..., None],
    common: _Common | None,
    share: Share | None,
    *,
    prunes: bool,
) -> None:
    """Opens the runtime and the database, and serves requests until a signal stops the server.

    `read` returns the settings of this moment, for a reload at SIGHUP. `listener`: the bound socket. `announce` is called
    with the facts to announce once the server listens. `common`: what all
    workers have in common, and `share` this worker's part; None: this is the only process. `prunes`: True if this process
    removes old runs.
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
        traffic = Traffic(
            settings.traffic,
            bounds=settings.bounds,
            registry=parts.registry,
            stopping=lambda: parts.runtime.stopping,
        )
        state_key = None if common is None else common.state_key
        door = await stack.enter_async_context(_mcp_door(parts, state_key, traffic))
        reviews = _reviews(parts)
        channels = _channels(parts)
        if channels is not None:
            parts.work.messenger.bind(channels)
            await stack.enter_async_context(channels)
        metrics = None if common is None else _joined_metrics(common.metrics)
        parts.work.queue.add({EVALUATION: evaluation_kind(Evaluations(parts.documents), settings)})
        app = create_app(
            parts,
            forwards=not settings.fallback,
            bounds=settings.bounds,
            idempotency=settings.idempotency,
            settings=settings.gateway,
            mounts={
                **_console(parts, reviews),
                **_webhooks(channels),
                **_telephony(parts),
                **(dict.fromkeys(door.paths, door) if settings.mcp.enabled else {}),
            },
            reviews=reviews,
            traffic=traffic,
            metrics=metrics,
            queue=parts.work.queue,
            jobs=settings.jobs,
        )
        await stack.enter_async_context(parts.work.serving())
        stack.push_async_callback(app.close)
        draining = Draining()
        shown = parts.registry if metrics is None else metrics
        shown.register(ProcessMetrics() if common is None else ProcessMetrics(partial(workers_of, common.metrics)))
        measured = Measured(app, parts.registry, routes=(*MODEL_DOORS, *door.paths))
        config.app = _until_cut(_traced(measured, providers, door.paths), draining, trusted=config.forwarded_allow_ips)
        await stack.enter_async_context(followed(parts, read, reloaded=partial(_note_reload, common)))
        # The objects loaded so far stay for good; scanning them for garbage would stop all requests for a tenth of a second.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECTIONS)
        sys.setswitchinterval(SWITCH_SECONDS)
        server = _Server(
            config,
            started=lambda: announce(parts, _url(listener), needs_key=needs_key),
            stopping=door.end_streams,
            cutting=parts.runtime.begin_shutdown,
            draining=draining.begin,
            drain_seconds=settings.server.drain,
            share=share,
        )
        await server.serve(sockets=[listener] if share is None else [])


def _note_reload(common: _Common | None) -> None:
    """Notes for workers that start later that the settings file was read again."""
    if common is not None:
        common.reloaded.value = 1


def _joined_metrics(folder: str) -> CollectorRegistry:
    """Returns a registry with the sums of the metrics of all workers, including those that have ended."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return registry


def _mcp_door(parts: Assembled, state_key: str | None, traffic: Traffic) -> MCPDoor:
    """Returns the MCP door. `state_key`: the secret that seals the state of waiting calls; None: that of the settings. `traffic`
    admits its requests. Raises `ConfigError` for settings that contradict each other."""
    settings = parts.settings.mcp
    check_mode(settings)
    if settings.path in _TAKEN_PATHS or settings.path.startswith(
        ("/v1", *Console.paths, *ChannelsDoor.paths, *TelephonyDoor.paths)
    ):
        raise ConfigError(f"mcp.path {settings.path!r} is a path of the gateway; choose another one, such as /mcp")
    return MCPDoor(
        parts.runtime,
        parts.documents,
        Access(parts.keys),
        settings,
        load_offers(settings.offers),
        bounds=parts.settings.bounds,
        state_key=state_key or state_key_of(settings),
        tokens=_tokens(settings),
        limiter=Limiter(parts.meter, parts.runtime, defaults=parts.key_limits),
        traffic=traffic,
    )


def _reviews(parts: Assembled) -> Reviews | None:
    """Returns the reviews of tools that bots wrote; None: the settings let bots write none."""
    if not writes_tools(parts.settings):
        return None
    return Reviews(authorship_of(parts.settings, host_parts(parts.settings, parts.documents)), parts.runtime.approvals)


def _console(parts: Assembled, reviews: Reviews | None) -> Mapping[str, App]:
    """Returns the console at its paths; nothing if the settings turn it off."""
    console = console_of(parts, reviews)
    return {} if console is None else dict.fromkeys(console.paths, console)


def _channels(parts: Assembled) -> Channels | None:
    """Returns the channels of the settings, not opened yet; None: there are none. Raises `ConfigError`."""
    if not parts.settings.channel:
        return None
    host = host_parts(parts.settings, parts.documents)
    return channels_of(parts.settings, parts.work.bots.talk, store=parts.documents, parts=host)


def _webhooks(channels: Channels | None) -> Mapping[str, App]:
    """Returns the webhooks of the channels at their path; nothing if there are no channels."""
    return {} if channels is None else dict.fromkeys(ChannelsDoor.paths, ChannelsDoor(channels))


def _telephony(parts: Assembled) -> Mapping[str, App]:
    """Returns the door for reports of calls at its path. It is there without a telephone too, because a reload may add one."""
    return dict.fromkeys(TelephonyDoor.paths, TelephonyDoor(parts.runtime.source))


def _tokens(settings: MCPSettings) -> Tokens | None:
    """Returns the check of OAuth tokens; None: the settings name no authorization server. Raises `ConfigError`."""
    if not (settings.authorization_servers or settings.introspection_url or settings.url):
        return None
    variable = settings.client_secret_env
    secret = None if variable is None else Secrets().require(variable, what="the secret of mcp.client_secret_env")
    return Tokens(settings, secret, operator_client)


def _traced(app: App, providers: Providers, paths: Collection[str]) -> App:
    """Returns an application that makes a span for each request, if spans or metrics go to a collector. `paths`: those of the MCP
    door."""
    if providers.tracer_provider is None and providers.meter_provider is None:
        return app
    return Traced(
        app,
        tracer_provider=providers.tracer_provider,
        meter_provider=providers.meter_provider,
        routes=(*MODEL_DOORS, *paths),
    )


def _until_cut(app: App, draining: Draining, *, trusted: list[str] | str) -> App:
    """Returns an application that logs one line, instead of a traceback, for a request that is cancelled at shutdown. Before,
    `draining` turns clients away. `trusted`: the proxies whose headers name the client of a request, as uvicorn reads them."""
    behind_proxy: Any = ProxyHeadersMiddleware(app, trusted_hosts=trusted)  # type: ignore[arg-type]

    async def cut_short(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            to_answer = behind_proxy if _is_forwarded(scope) else app
            if draining.has_begun:
                await draining.answer(to_answer, scope, receive, send)
            else:
                await to_answer(scope, receive, send)
        except asyncio.CancelledError:
            # Not raised again: this is the outermost frame of a request, and the server would log a traceback.
            log.warning("request_cut_at_shutdown", path=scope.get("path"))

    return cut_short


def _is_forwarded(scope: Scope) -> bool:
    """Returns True if a proxy has added the address of the client, or its scheme, to a request."""
    return not _PROXY_HEADERS.isdisjoint([name for name, _ in scope.get("headers", ())])


def _no_app() -> None:
    """A placeholder. uvicorn makes the event loop from its configuration, which needs an application; the real application is
    built later, in that loop."""


class _Server(uvicorn.Server):
    """A server that calls `started` as soon as it listens, `stopping` when it stops, and `cutting` before it cancels requests. A
    signal stops the server and not the process, so that the trail can still be written.

    The first SIGTERM calls `draining`, and stops the server `drain_seconds` later; another one stops it at once."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        started: Callable[[], None],
        stopping: Callable[[], None],
        cutting: Callable[[], None],
        draining: Callable[[], None],
        drain_seconds: float,
        share: Share | None,
    ) -> None:
        """`share`: the listener that this process shares with other workers; None: uvicorn has one of its own."""
        super().__init__(config)
        self._share = share
        self._acceptor: Acceptor | None = None
        self._on_started = started
        self._on_stopping = stopping
        self._on_cutting = cutting
        self._on_draining = draining
        self._drain_seconds = drain_seconds
        self._cut_tasks: set[asyncio.Task[None]] = set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn for SIGTERM and SIGINT, between two steps of the loop."""
        if sig != signal.SIGTERM or not self._drain_seconds:
            super().handle_exit(sig, frame)
            return
        seconds, self._drain_seconds = self._drain_seconds, 0.0
        self._on_draining()
        log.info("draining", seconds=seconds)
        loop = asyncio.get_running_loop()
        loop.call_soon_threadsafe(loop.call_later, seconds, super().handle_exit, sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._share is not None:
            self._acceptor = Acceptor(self._share, self._protocol, lambda: len(self.server_state.connections))
            self._acceptor.start()
        self._on_started()

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times in a second."""
        if self._acceptor is not None:
            self._acceptor.count()
        return await super().on_tick(counter)

    def _protocol(self) -> asyncio.Protocol:
        """Returns the protocol of a new connection, as uvicorn makes it."""
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops the server. Open requests have `GRACE_SECONDS` to end, or until a second signal; then they are cancelled, and
        `CUT_SECONDS` to send an answer and record their end."""
        if self._acceptor is not None:
            self._acceptor.stop()
        self._on_stopping()
        time_is_up = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._cut)
        await super().shutdown(sockets)
        time_is_up.cancel()
        self._cut()
        with suppress(TimeoutError):
            async with asyncio.timeout(CUT_SECONDS):
                await self._until_gone()

    def _cut(self) -> None:
        """Cancels all open requests, each once. A cancelled request answers its client and records its end."""
        under_way = set(self.server_state.tasks) - self._cut_tasks
        if under_way:
            self._on_cutting()
        for task in under_way:
            task.cancel()
        self._cut_tasks |= under_way

    async def _until_gone(self) -> None:
        """Waits until the last bytes are sent, because a slow client reads them some time after they were written."""
        while self.server_state.tasks or self.server_state.connections:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(_LOOK_SECONDS)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own method raises each signal again once the server has stopped. That would kill the process before the
        # trail and the database are closed.
        before = {kind: signal.signal(kind, self.handle_exit) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def _listen(host: str, port: int) -> socket.socket:
    """Returns a bound socket. The server binds it before it opens anything else, so that a port in use is reported first."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except socket.gaierror as error:
        raise ConfigError(f"--host {host}: {error.strerror}; use an address of this machine, or 127.0.0.1") from error
    except OSError as error:
        raise CommandFailed(
            f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}; stop what listens there, or choose "
            "another --port"
        ) from error


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


def _announcement(
    parts: Assembled, url: str, *, needs_key: bool, config: Path | None, as_json: bool
) -> str | Mapping[str, Any]:
    """Returns the address, in a text with examples or as JSON. `config`: the file of `--config`."""
    if as_json:
        tools = len(parts.runtime.source.snapshot())
        return {"url": url, "base_url": f"{url}/v1", "provider": parts.provider.name, "tools": tools}
    return welcome(parts, url, needs_key=needs_key, config=config)


def _announce(announcement: str | Mapping[str, Any]) -> None:
    """Prints the announcement of a server that has started."""
    if isinstance(announcement, str):
        echo(announcement)
    else:
        print_json(announcement)
