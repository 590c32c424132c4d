"""The MCP server: answers the methods of the protocol from the runtime. It stands on the low-level server of the package `mcp`,
which speaks both generations of the protocol; `http.py` and `stdio.py` connect it to a transport.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcaddie import __version__
from toolcaddie.app.settings import MCPSettings, duration_seconds
from toolcaddie.audit.redact import redact_keys
from toolcaddie.core.client import AnswerPending
from toolcaddie.core.errors import RequestError, ToolcaddieError
from toolcaddie.core.events import CallProgressed, RunEvent
from toolcaddie.core.selection import Selection
from toolcaddie.core.storage import ApiKey
from toolcaddie.core.tool import Taint, Tool, ToolResult, failed
from toolcaddie.core.wire import Problem
from toolcaddie.desk import ToolDesk
from toolcaddie.doors.gateway.limiting import Limiter
from toolcaddie.doors.gateway.problems import RefusedError
from toolcaddie.doors.mcp.approving import Approving
from toolcaddie.doors.mcp.catalogs import All, Selected
from toolcaddie.doors.mcp.compact import Compact, Five
from toolcaddie.doors.mcp.content import call_result, listed_tool
from toolcaddie.doors.mcp.menu import Menu, Scene
from toolcaddie.doors.mcp.news import EVERYBODY, News
from toolcaddie.doors.mcp.offering import Offering
from toolcaddie.doors.mcp.offers import Offers
from toolcaddie.doors.mcp.questions import Context, MCPClient, Repeatable
from toolcaddie.doors.mcp.seat import SEAT, Seat
from toolcaddie.doors.mcp.taint import CONVERSATION, SessionTaint
from toolcaddie.doors.mcp.whole import whole
from toolcaddie.ports import Store
from toolcaddie.runtime import Runtime
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_PAGE = 1_000
"""The largest number of tools in one answer of `tools/list`."""
_SEARCH_KIND = "mcp-search"
_SEARCH_SECONDS = 86_400.0
_LONGEST_TASK = 2_000
_MOST_SESSIONS = 10_000
_LIST_MILLISECONDS = 5_000
"""Milliseconds for which a client of the protocol of 2026 may keep a list."""


class _Server(Server[Any]):
    """A server that declares to clients of the protocol of 2025 that its list of tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **options: Any
    ) -> InitializationOptions:
        declared = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(declared, *args, **options)


class ToolServer:
    """Answers MCP requests.

    `documents` stores the last search of each client, so that all replicas know it. `seat`: the sender of requests that come
    without HTTP. `state_key`: the secret that seals the state of waiting calls; None: a random one.
    `limiter` counts the calls of API keys; None: they are not counted.
    """

    def __init__(
        self,
        runtime: Runtime,
        documents: Store,
        settings: MCPSettings,
        offers: Offers,
        *,
        seat: Seat | None = None,
        state_key: str | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        self._runtime = runtime
        self._documents = documents
        self._settings = settings
        self._offers = offers
        self._seat = seat
        self._limiter = limiter
        self._menu = self._menu_of(settings)
        self._levels: Bounded[str, str] = Bounded(_MOST_SESSIONS)
        self._taint = SessionTaint(duration_seconds(settings.tainted_for))
        self._news = News(
            offers,
            session_of=lambda context: self._of(context).session,
            tenant_of=lambda context: self._of(context).principal.tenant,
        )
        self._offering = Offering(offers, lambda context: self._of(context).principal, self._client)
        self.server = self._server(state_key)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Tells clients about changes of the catalog and of resources until the `with` block ends."""
        shown = self._settings.mode != "compact"
        async with self._news.watching(self._catalog_versions if shown else None):
            yield

    def end_listening(self) -> None:
        """Ends the streams on which clients of the protocol of 2026 wait for news."""
        self._news.listening.close()

    def _catalog_versions(self) -> Mapping[str, str]:
        """Returns the version of the shared catalog, and those of the open catalogs of tenants."""
        catalogs = self._runtime.catalogs
        own = {tenant: catalogs.snapshot(tenant).version for tenant in catalogs.open}
        return {EVERYBODY: catalogs.shared.snapshot().version, **own}

    def _menu_of(self, settings: MCPSettings) -> Menu:
        match settings.mode:
            case "compact":
                return Five() if settings.five else Compact()
            case "selected":
                return Selected(self._selected)
            case _:
                return All()

    def _server(self, state_key: str | None) -> Server[Any]:
        hint = CacheHint(ttl_ms=0 if self._settings.mode == "selected" else _LIST_MILLISECONDS, scope="private")
        server: Server[Any] = _Server(
            "toolcaddie",
            version=__version__,
            title="Toolcaddie",
            instructions=self._menu.instructions or None,
            cache_hints=dict.fromkeys(_CACHED, hint),
            get_tool_input_schema=self._schema_of,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._news.listening,
            **self._offering.handlers,
            **(self._news.handlers if self._offers.resources else {}),
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._news.join)
        security = RequestStateSecurity(
            keys=[state_key] if state_key else [_process_key()],
            bind_principal=lambda context: repr(self._of(context).principal),
        )
        server.middleware.append(RequestStateBoundary(security, default_audience="toolcaddie"))
        return server

    def _schema_of(self, name: str) -> Mapping[str, Any] | None:
        """Returns the schema by which `Mcp-Param-` headers are checked; None: there are none. A restricted tool, or one of a
        tenant, is not looked up, because the check must not tell a caller that a hidden tool exists."""
        if self._settings.mode == "compact":
            return None
        tool = self._runtime.source.snapshot().get(name)
        return None if tool is None or tool.is_restricted else tool.input_schema

    def _of(self, context: Context) -> Seat:
        """Returns the sender of a request."""
        if self._seat is not None:
            return self._seat
        assert context.request is not None, "every request without HTTP has the seat of the process"
        seat: Seat = context.request.scope[SEAT]
        return seat

    # --- tools -------------------------------------------------------------------------------------------------------

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            async with self._runtime.holding(self._of(context).principal.tenant):
                tools = await self._menu.tools(await self._scene(context, None))
        except ToolcaddieError as error:
            raise _protocol_error(error) from error
        start = _start(params)
        following = start + _PAGE
        return types.ListToolsResult(
            tools=[listed_tool(tool) for tool in tools[start:following]],
            next_cursor=str(following) if following < len(tools) else None,
        )

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        client = self._client(context, params)
        try:
            async with self._runtime.holding(self._of(context).principal.tenant):
                scene = await self._scene(context, client)
                result = await whole(self._menu.call(params.name, params.arguments or {}, scene))
        except ToolcaddieError as error:
            raise _protocol_error(error) from error
        return client.outcome() or call_result(result, modern=client.modern)

    async def _scene(self, context: Context, client: MCPClient | None) -> Scene:
        """Returns what the menu needs to know about a request."""
        seat = self._of(context)
        await self._runtime.open()
        desk = self._runtime.desk(principal=self._runtime.identified(seat.principal), conversation=CONVERSATION)
        return Scene(
            desk=desk,
            call=partial(self._called, context, desk, client),
            read_on=None if desk.held is None else partial(self._read_on, context, desk),
            task=await self._task(context, seat) if self._settings.mode == "selected" else "",
            searched=partial(self._remember, context),
        )

    async def _called(
        self, context: Context, desk: ToolDesk, client: MCPClient | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolResult:
        """Calls a tool of the catalog, judged by what the client has read before. Raises `MCPError` if the client's key has
        reached a limit."""
        await self._count(self._of(context).key)
        session = self._session(context)
        desk = replace(desk, taint=await self._taint.before(desk, session))

        async def call(tell: Callable[[RunEvent], Awaitable[None]]) -> ToolResult:
            async def follow(event: RunEvent) -> None:
                self._taint.follow(desk, session, event)
                await tell(event)
                await _pass_progress(context, event)

            return await desk.call(name, arguments, live=follow, client=client)

        if client is None or self._settings.approve != "client":
            return await call(_ignore)
        approving = Approving(approvals=self._runtime.approvals, client=client, principal=desk.request.principal)
        try:
            return await approving.called(call)
        except AnswerPending as pending:  # the client gets the question instead of this result
            return failed(str(pending))

    async def _read_on(self, context: Context, desk: ToolDesk, handle: str, offset: int, limit: int) -> ToolResult:
        """Returns the next part of a truncated result, which a call of another client of the principal may have returned."""
        session = self._session(context)
        await self._taint.before(desk, session)  # so that a new session begins with what its principal has read
        page = await desk.read_on(handle, offset, limit)
        if isinstance(page.effect, Taint):
            self._taint.add(desk, session, page.effect.names)
        return page

    async def _count(self, key: ApiKey | None) -> None:
        """Counts a call of a key. Raises `MCPError` if the key has reached a limit."""
        if key is None or self._limiter is None:
            return
        try:
            await self._limiter.count(key)
        except RefusedError as refused:
            raise _limit_error(refused.problem) from refused

    def _session(self, context: Context) -> str:
        """Returns the id of the session of a request; empty: it has none, and a header that names one means nothing."""
        has_session = self._settings.sessions is not False and context.protocol_version not in MODERN_PROTOCOL_VERSIONS
        return self._of(context).session if has_session or self._seat is not None else ""

    def _client(
        self,
        context: Context,
        params: Repeatable,
    ) -> MCPClient:
        return MCPClient(
            context,
            responses=params.input_responses,
            state=params.request_state,
            level=self._levels.get(self._of(context).session),
        )

    # --- selected tools ----------------------------------------------------------------------------------------------

    def _selected(self, task: str, scene: Scene) -> list[Tool]:
        """Returns the tools that fit a task; without one, the core tools."""
        if not task:
            return [tool for tool in scene.desk.view if tool.core]
        principal, most = scene.desk.request.principal, self._settings.max_tools
        selection: Selection = self._runtime.select(task, principal=principal, max_tools=most)
        return [selected.tool for selected in selection.tools]

    async def _task(self, context: Context, seat: Seat) -> str:
        """Returns the text by which the tools of a client are selected."""
        stored = await self._documents.get(_SEARCH_KIND, _client_key(context, seat))
        return stored.decode() if stored is not None else seat.task or self._settings.task

    async def _remember(self, context: Context, query: str) -> None:
        if self._settings.mode != "selected":
            return
        key = _client_key(context, self._of(context))
        await self._documents.put(_SEARCH_KIND, key, query[:_LONGEST_TASK].encode(), ttl=_SEARCH_SECONDS)
        await self._news.tools_changed(context)

    async def _set_level(self, context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._levels.put(self._of(context).session, params.level)
        return types.EmptyResult()


_CACHED: tuple[Any, ...] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "server/discover",
)


def _process_key() -> bytes:
    return os.urandom(32)


async def _ignore(event: RunEvent) -> None:
    """Listens to nothing."""


async def _pass_progress(context: Context, event: RunEvent) -> None:
    """Sends the progress of a call to a client that asked for it."""
    if isinstance(event, CallProgressed):
        await context.session.report_progress(event.done, event.total, event.message or None)


def _start(params: types.PaginatedRequestParams | None) -> int:
    cursor = "0" if params is None or params.cursor is None else params.cursor
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:
        raise MCPError(INVALID_PARAMS, "the cursor is not from this server; list from the beginning")
    return int(cursor)


def _client_key(context: Context, seat: Seat) -> str:
    """Returns the key under which the search of a client is stored: by its session, or else by its name."""
    info = getattr(context.session.client_params, "client_info", None)
    client = seat.session or f"client {getattr(info, 'name', '')}"
    return hashlib.sha256("\n".join((*seat.principal.owner, client)).encode()).hexdigest()


def _limit_error(refusal: Problem) -> MCPError:
    """Returns the refusal of a call beyond a limit, with the number and the words of HTTP."""
    data = {"code": refusal.code, "limited": refusal.kind, "retryAfter": int(refusal.headers["retry-after"])}
    return MCPError(refusal.status, refusal.message, data)


def _protocol_error(error: ToolcaddieError) -> MCPError:
    code = INVALID_PARAMS if isinstance(error, RequestError) else INTERNAL_ERROR
    return MCPError(code, redact_keys(str(error))[:2_000])
