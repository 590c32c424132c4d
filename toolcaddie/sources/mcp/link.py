"""The link to one MCP server: a long-lived task that connects, reads the lists, connects again after a failure, and closes. Calls
run as tasks of their own beside it, so nothing that happens to a connection can cancel the code that made a call."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from msgspec import Struct

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import ConfigError, OutboundError
from toolcaddie.core.run import ReportProgress
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.sources.mcp import results, session
from toolcaddie.sources.mcp.definitions import Definition
from toolcaddie.sources.mcp.http import SESSION_UNKNOWN, http_client
from toolcaddie.sources.mcp.questions import ASIDES, Questions, Sampler
from toolcaddie.sources.mcp.server import McpServer
from toolcaddie.sources.mcp.stdio import LAST_WORDS, Streams, stdio
from toolcaddie.util.log import Logger
from toolcaddie.util.text import visible_line
from toolcaddie.util.waiting import wait_up_to

log = Logger(__name__)

T = TypeVar("T")
State = Literal["connecting", "connected", "waiting", "closed"]
MakeAuth = Callable[[], Awaitable[httpx2.Auth | None]]

_FIRST_WAIT, _LONGEST_WAIT = 0.25, 30.0
"""Seconds before the first and the later attempts to connect again."""
_CLOSING_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_QUIET_SECONDS = 0.5
"""Seconds between two readings of the lists, however often a server says that they have changed."""
_LISTEN_AGAIN = 2.0
_OTHERS_SECONDS = 1.0
"""Seconds in which the other calls of a session that the server does not know may learn so themselves."""
_SHOWN = 500


class LinkLostError(Exception):
    """The connection ended during a call (`began`), or there is none."""

    def __init__(self, reason: str, *, began: bool = False) -> None:
        super().__init__(reason)
        self.began = began


class _SessionUnknownError(LinkLostError):
    """The server does not know the session, so it has not run the request."""


class Hooks(Struct, frozen=True, kw_only=True):
    """Functions of the source that the link calls."""

    listed: Callable[[list[Definition]], Awaitable[None]]
    """Takes the definitions of the server, at first and after each change."""
    lost: Callable[[str], None]
    """Takes the reason why the connection has ended."""


class Link:
    """The link to one server, in the event loop in which it is started."""

    def __init__(
        self,
        server: McpServer,
        parts: Parts,
        hooks: Hooks,
        *,
        make_auth: MakeAuth | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self._server = server
        self._parts = parts
        self._hooks = hooks
        self._make_auth = make_auth
        self._questions = Questions(server, sampler, lambda: list(self._asides.values()))
        self._asides: dict[asyncio.Task[Any], list[str]] = {}
        self._ending: set[asyncio.Task[ToolResult]] = set()
        """Cancelled calls that still tell the server so. No caller waits: a stalled server can delay that for seconds."""
        self._places = asyncio.Semaphore(server.concurrency)
        self._session: session.Session | None = None
        self._owner: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._attempted = asyncio.Event()
        """Set when the attempt to connect that is in progress has ended."""
        self._last_failure = 0.0
        """Moment of the last attempt to connect that failed, on the monotonic clock."""
        self._was_connected = False
        """True if the last attempt to connect succeeded."""
        self._changed = False
        self._closing = asyncio.Event()
        self._reason = ""
        self.state: State = "closed"
        self.version = ""
        self.server_name = ""

    @property
    def reason(self) -> str:
        """The last failure; empty: there was none since the last connection."""
        return self._reason

    @property
    def _shown_reason(self) -> str:
        """The reason without what the server's program wrote to stderr, which is for operators and not for a model."""
        return self._reason.partition(LAST_WORDS)[0]

    async def start(self) -> None:
        """Connects and reads the lists. Raises `OutboundError` or `ConfigError` if that fails; then nothing stays open."""
        _quieten()
        self._closing.clear()
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._live(first), name=f"mcp {self._server.name}")
        try:
            await asyncio.shield(first)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends the connection and all calls. Safe if there is none."""
        owner, self._owner = self._owner, None
        self._closing.set()
        while owner is not None and not owner.done():
            # The packages below may turn a cancellation into another error, so one may not be enough.
            owner.cancel()
            await asyncio.wait({owner}, timeout=_AGAIN_SECONDS)
        if self._ending:
            await asyncio.wait(self._ending, timeout=_CLOSING_SECONDS)
        self.state = "closed"

    async def call(
        self, name: str, arguments: dict[str, Any], *, seconds: float | None, on_progress: ReportProgress
    ) -> ToolResult:
        """Calls a tool. Raises `LinkLostError` or one of the errors of the protocol's package."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            await on_progress(progress, total, message or "")

        async def run(current: session.Session) -> ToolResult:
            answer = await session.call_tool(current, name, arguments, seconds=seconds, on_progress=report)
            return results.result_of(answer)

        return await self._run(run)

    async def read(self, uri: str) -> ToolResult:
        """Reads a resource. Raises the errors of `call`."""

        async def run(current: session.Session) -> ToolResult:
            return results.resource_result(await session.read_resource(current, uri))

        return await self._run(run)

    async def prompt(self, name: str, arguments: dict[str, str]) -> ToolResult:
        """Gets a prompt. Raises the errors of `call`."""

        async def run(current: session.Session) -> ToolResult:
            return results.prompt_result(await session.get_prompt(current, name, arguments))

        return await self._run(run)

    async def _run(self, use: Callable[[session.Session], Coroutine[Any, Any, ToolResult]]) -> ToolResult:
        """Runs a request in a task of its own. Ends it if the caller is cancelled or the connection is lost. A request whose
        session the server does not know has not run there, so it is sent again in a new session."""
        async with self._places:
            try:
                return await self._run_once(use)
            except _SessionUnknownError:
                return await self._run_once(use)

    async def _run_once(self, use: Callable[[session.Session], Coroutine[Any, Any, ToolResult]]) -> ToolResult:
        current = await self._connected()
        asides: list[str] = []
        task = asyncio.create_task(_with_asides(use(current), asides))
        self._asides[task] = asides
        try:
            result = await self._outcome(task)
        except (MCPError, httpx2.HTTPError) as error:
            if not _is_loss(error):
                raise
            self._suspect(current, _cause(error))
            if _cause(error) == SESSION_UNKNOWN:
                raise _SessionUnknownError(SESSION_UNKNOWN) from error
            raise LinkLostError(self._shown_reason or _cause(error), began=True) from error
        finally:
            del self._asides[task]
        return _with_remarks(result, asides)

    async def _connected(self) -> session.Session:
        """Returns the session. If there is none, waits for the attempt to connect that is in progress, or demands one. Raises
        `LinkLostError`."""
        if self._session is None and self._owner is not None and not self._owner.done():
            if (
                self.state == "waiting"
                and self._attempted.is_set()
                and time.monotonic() - self._last_failure > _FIRST_WAIT
            ):
                self._attempted.clear()
                self._wake.set()
            await self._attempted.wait()
        if self._session is None:
            raise LinkLostError(self._shown_reason or "there is no connection")
        return self._session

    def _suspect(self, current: session.Session, reason: str) -> None:
        """Ends a connection on which a call has failed in a way that suggests that the server is gone."""
        if self._session is current:
            self._lose(reason)

    def _lose(self, reason: str) -> None:
        self._reason = visible_line(reason)[:_SHOWN]
        self._session = None
        self._attempted.clear()
        self._wake.set()

    async def _live(self, first: asyncio.Future[None]) -> None:
        """Keeps the connection until it is cancelled. The outcome of the first attempt goes to `first`."""
        failures = 0
        try:
            while not self._closing.is_set():
                self.state = "connecting"
                self._attempted.clear()
                self._wake.clear()
                self._was_connected, self._reason = False, ""
                try:
                    await self._connection(first)
                except Exception as error:  # noqa: BLE001  somebody else's server: whatever fails there, it is tried again
                    self._reason = self._reason or visible_line(_cause(error))[:_SHOWN]
                    _settle(first, _as_start_error(error, self._server, self._reason))
                if self._was_connected:
                    failures = 0
                self._end_calls()
                self.state = "waiting"
                if not self._was_connected:
                    self._last_failure = time.monotonic()
                    self._attempted.set()
                if self._closing.is_set():
                    return
                if self._was_connected:
                    self._hooks.lost(self._reason)
                await self._pause(failures)
                failures += 1
        finally:
            self._session = None
            self._end_calls()
            self._attempted.set()
            self.state = "closed"
            if not first.done():
                first.cancel()

    async def _pause(self, failures: int) -> None:
        """Waits before the next attempt to connect; a call that needs the connection ends the wait."""
        self._wake.clear()
        seconds = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(failures, 10)) * random.uniform(0.75, 1.25)
        await wait_up_to(seconds, self._wake)

    async def _connection(self, first: asyncio.Future[None]) -> None:
        """Connects, reads the lists and keeps the connection until it is lost. Raises the reason for a failure."""
        loop = asyncio.get_running_loop()
        # One limit for all phases. It must lie around the whole connection: the packages below report a failure by cancelling
        # what is inside their blocks, and turn that into the error only where their blocks end.
        async with asyncio.timeout(self._server.connect_seconds) as limit:
            try:
                async with (
                    await self._transport() as (read, write),
                    session.session_over(read, write, self._server, self._questions, self._note_change) as current,
                ):
                    await self._hooks.listed(await session.list_everything(current, self._server))
                    limit.reschedule(None)
                    self._take(current)
                    _settle(first, None)
                    try:
                        await self._serve(current)
                    finally:
                        self._session = None
                        self._attempted.clear()
                        if self._reason == SESSION_UNKNOWN and self._asides:
                            # The others are told the same by the server, and are then sent again.
                            await asyncio.wait(self._asides, timeout=_OTHERS_SECONDS)
                        self._end_calls()
                        limit.reschedule(loop.time() + _CLOSING_SECONDS)
            except TimeoutError as error:
                raise OutboundError("a list was not answered in time") from error

    def _take(self, current: session.Session) -> None:
        """Lets calls use a session."""
        self.version = current.protocol_version or ""
        self.server_name = visible_line(current.server_info.name)[:80] if current.server_info else ""
        self._session, self.state, self._reason, self._was_connected = current, "connected", "", True
        self._attempted.set()

    async def _transport(self) -> contextlib.AbstractAsyncContextManager[Streams]:
        if self._server.url is None:
            return stdio(self._server, self._parts.secrets, self._parts.bounds.answer, self._lose)
        auth = None if self._make_auth is None else await self._make_auth()
        return _http(self._server, self._parts, self._parts.bounds, auth)

    async def _serve(self, current: session.Session) -> None:
        """Reads the lists again when they change or get old, until the connection is lost."""
        listener = asyncio.create_task(self._listen(current))
        try:
            while self._session is current:
                await wait_up_to(self._server.refresh_seconds, self._wake)
                self._wake.clear()
                if self._session is current:
                    self._changed = False
                    async with asyncio.timeout(self._server.connect_seconds):
                        await self._hooks.listed(await session.list_everything(current, self._server))
                    await asyncio.sleep(_QUIET_SECONDS)
                    if self._changed:
                        self._wake.set()
        finally:
            listener.cancel()
            await asyncio.wait({listener})

    async def _listen(self, current: session.Session) -> None:
        """Waits for changes of the lists, in the newer generation; in the older one they arrive by themselves."""
        if not current.is_modern:
            return
        while True:
            try:
                wanted = self._server
                async with listen(
                    current,
                    tools_list_changed=True,
                    resources_list_changed=wanted.resources,
                    prompts_list_changed=wanted.prompts,
                ) as changes:
                    async for _ in changes:
                        self._note_change()
            except MCPError as error:
                if not _is_loss(error):
                    return  # the server has no such stream; its lists are read again from time to time
                self._suspect(current, _cause(error))
            except (SubscriptionLost, TimeoutError, RuntimeError):
                self._note_change()  # a change may have been missed; if the server is gone, reading its lists shows it
            await asyncio.sleep(_LISTEN_AGAIN)

    def _note_change(self) -> None:
        self._changed = True
        self._wake.set()

    def _end_calls(self) -> None:
        for task in self._asides:
            task.cancel()

    async def _outcome(self, task: asyncio.Task[ToolResult]) -> ToolResult:
        """Waits for a task, and cancels it if the caller is cancelled. Raises `LinkLostError` if the link has cancelled it, or
        the connection has ended under it."""
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self._abandon(task)
            raise
        if task.cancelled():
            raise LinkLostError(self._shown_reason or "the connection was closed", began=True)
        return task.result()

    def _abandon(self, task: asyncio.Task[ToolResult]) -> None:
        """Cancels a task without waiting for its end."""
        task.cancel()
        if not task.done():
            self._ending.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[ToolResult]) -> None:
        self._ending.discard(task)
        if not task.cancelled():
            task.exception()  # read, so that asyncio does not report it: the caller has gone


async def _with_asides(coroutine: Coroutine[Any, Any, ToolResult], asides: list[str]) -> ToolResult:
    ASIDES.set(asides)
    return await coroutine


def _with_remarks(result: ToolResult, asides: list[str]) -> ToolResult:
    return results.with_remarks(result, asides) if asides else result


@asynccontextmanager
async def _http(server: McpServer, parts: Parts, bounds: Bounds, auth: httpx2.Auth | None) -> AsyncIterator[Any]:
    assert server.url is not None
    client = http_client(server, parts.secrets, bounds.answer, parts.guarded_client, auth)
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=bounds.answer) as streams,
    ):
        yield streams


def _is_loss(error: Exception) -> bool:
    """Returns True for an error after which the connection is of no use."""
    if not isinstance(error, MCPError):
        return True
    return error.code == CONNECTION_CLOSED or error.message in _LOSSES


_LOSSES = frozenset({SESSION_UNKNOWN, "Connection closed"})


def is_timeout(error: Exception) -> bool:
    """Returns True if a request was not answered in time."""
    return isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT)


def _settle(first: asyncio.Future[None], error: Exception | None) -> None:
    if first.done():
        return
    if error is None:
        first.set_result(None)
    else:
        first.set_exception(error)


def _as_start_error(error: Exception, server: McpServer, reason: str) -> Exception:
    if isinstance(error, ConfigError):
        return error
    return OutboundError(f"the MCP server {server.name!r} ({server.place}) cannot be used: {reason}")


def _cause(error: BaseException) -> str:
    """Returns the sentence of an error; of a group of errors, that of the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    text = error.message if isinstance(error, MCPError) else str(error)
    return (text.partition("\n")[0] or type(error).__name__)[:_SHOWN]


def _quieten() -> None:
    """Turns off the log lines that the packages below write for each request, and their tracebacks of what is reported here."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
