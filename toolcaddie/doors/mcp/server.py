"""The MCP server: answers the methods of the protocol from the runtime. It stands on the low-level server of the package `mcp`,
which speaks both generations of the protocol; `http.py` and `stdio.py` connect it to a transport.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS

from toolcaddie import __version__
from toolcaddie.app.settings import MCPSettings
from toolcaddie.core.client import AnswerPending, ClientError
from toolcaddie.core.content import BLOCKS, Text
from toolcaddie.core.errors import RequestError, ToolcaddieError
from toolcaddie.core.events import CallProgressed, RunEvent
from toolcaddie.core.selection import Selection
from toolcaddie.core.tool import Tool
from toolcaddie.doors.mcp.catalogs import All, Selected
from toolcaddie.doors.mcp.compact import Compact, Five
from toolcaddie.doors.mcp.content import call_result, content_block, listed_tool
from toolcaddie.doors.mcp.menu import Menu, Scene
from toolcaddie.doors.mcp.offers import Offer, Offers
from toolcaddie.doors.mcp.questions import Context, MCPClient
from toolcaddie.doors.mcp.seat import SEAT, Seat
from toolcaddie.doors.mcp.whole import whole
from toolcaddie.ports import Store
from toolcaddie.runtime import Runtime
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

_PAGE = 1_000
"""The largest number of tools in one answer of `tools/list`."""
_SEARCH_KIND = "mcp-search"
_SEARCH_SECONDS = 86_400.0
_LONGEST_TASK = 2_000
_MOST_SESSIONS = 10_000
_LIST_MILLISECONDS = 5_000
"""Milliseconds for which a client of the protocol of 2026 may keep a list."""

_INSTRUCTIONS = {
    "compact": "Find tools with search_tools or list_tools, read their arguments with get_tool_schema, and run them with "
    "execute_read, execute_write or execute_destructive, whichever is the effect of the tool.",
    "selected": "search_tools finds more tools; those that fit your last search are then among your tools.",
    "all": "",
}

_Repeatable = types.CallToolRequestParams | types.GetPromptRequestParams | types.ReadResourceRequestParams
"""Requests that a client may repeat with answers to questions."""


class ToolServer:
    """Answers MCP requests.

    `documents` stores the last search of each client, so that all replicas know it. `seat`: the sender of requests that come
    without HTTP. `state_key`: the secret that seals the state of waiting calls; None: a random one.
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
    ) -> None:
        self._runtime = runtime
        self._documents = documents
        self._settings = settings
        self._offers = offers
        self._seat = seat
        self._menu = self._menu_of(settings)
        self._levels: Bounded[str, str] = Bounded(_MOST_SESSIONS)
        self._subscribers: Bounded[str, dict[str, Any]] = Bounded(_MOST_SESSIONS)
        self._bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self._bus)
        self.server = self._server(state_key)

    @property
    def options(self) -> InitializationOptions:
        """The abilities that the server declares to clients of the protocol of 2025."""
        return self.server.create_initialization_options(NotificationOptions(tools_changed=True))

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
        offers = self._offers
        handlers: dict[str, Any] = {}
        if offers.resources:
            handlers |= {
                "on_list_resources": self._list_resources,
                "on_list_resource_templates": self._list_templates,
                "on_read_resource": self._read_resource,
                "on_subscribe_resource": self._subscribe,
                "on_unsubscribe_resource": self._unsubscribe,
            }
        if offers.prompts:
            handlers |= {"on_list_prompts": self._list_prompts, "on_get_prompt": self._get_prompt}
        if offers.prompts or offers.resources:
            handlers["on_completion"] = self._complete
        server: Server[Any] = Server(
            "toolcaddie",
            version=__version__,
            title="Toolcaddie",
            instructions=_INSTRUCTIONS[self._settings.mode] or None,
            cache_hints=dict.fromkeys(_CACHED, hint),
            get_tool_input_schema=self._schema_of,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self.listening,
            **handlers,
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        security = RequestStateSecurity(
            keys=[state_key] if state_key else [_process_key()],
            bind_principal=lambda context: repr(self._of(context).principal),
        )
        server.middleware.append(RequestStateBoundary(security, default_audience="toolcaddie"))
        return server

    def _schema_of(self, name: str) -> Mapping[str, Any] | None:
        """Returns the schema by which `Mcp-Param-` headers are checked; None: there are none. A restricted tool is not looked up,
        because the check must not tell a caller that a hidden tool exists."""
        if self._settings.mode == "compact":
            return None
        tool = self._runtime.source.snapshot().get(name)
        return None if tool is None or tool.roles or tool.scope != "all" else tool.input_schema

    def _of(self, context: Context) -> Seat:
        """Returns the sender of a request."""
        if self._seat is not None:
            return self._seat
        assert context.request is not None, "every request without HTTP has the seat of the process"
        seat: Seat = context.request.scope[SEAT]
        return seat

    # --- tools -------------------------------------------------------------------------------------------------------

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        scene = await self._scene(context, None)
        tools = await self._menu.tools(scene)
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
            scene = await self._scene(context, client)
            result = await whole(self._menu.call(params.name, params.arguments or {}, scene))
        except ToolcaddieError as error:
            raise _protocol_error(error) from error
        return client.outcome() or call_result(result, modern=client.modern)

    async def _scene(self, context: Context, client: MCPClient | None) -> Scene:
        """Returns what the menu needs to know about a request."""
        seat = self._of(context)
        await self._runtime.open()
        desk = self._runtime.desk(principal=self._runtime.identified(seat.principal))
        return Scene(
            desk=desk,
            call=partial(desk.call, live=partial(_pass_progress, context), client=client),
            held=desk.held,
            task=await self._task(context, seat) if self._settings.mode == "selected" else "",
            searched=partial(self._remember, context),
        )

    def _client(
        self,
        context: Context,
        params: _Repeatable,
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
        await self._bus.publish(ToolsListChanged())
        if self._of(context).session or self._seat is not None:
            await context.session.send_tool_list_changed()

    # --- prompts and resources ---------------------------------------------------------------------------------------

    async def _list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        principal = self._of(context).principal
        return types.ListPromptsResult(
            prompts=[_listed_prompt(each) for each in self._offers.prompts if each.visible_to(principal)]
        )

    async def _get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        offer = self._offers.prompt(params.name, self._of(context).principal)
        if offer is None:
            raise MCPError(INVALID_PARAMS, f"there is no prompt {params.name[:100]!r}")
        arguments = params.arguments or {}
        missing = [each.name for each in offer.arguments if each.required and each.name not in arguments]
        if missing:
            raise MCPError(INVALID_PARAMS, f"the prompt {offer.name} needs {', '.join(missing)}")
        known = {each.name for each in offer.arguments}
        client = self._client(context, params)
        value = await _answered(offer, {name: text for name, text in arguments.items() if name in known}, client)
        waiting = client.outcome()
        return waiting or types.GetPromptResult(description=offer.description or None, messages=_messages(value))

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        principal = self._of(context).principal
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=each.uri, **_described(each))
                for each in self._offers.resources
                if not each.is_template and each.visible_to(principal)
            ]
        )

    async def _list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        principal = self._of(context).principal
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=each.uri, **_described(each))
                for each in self._offers.resources
                if each.is_template and each.visible_to(principal)
            ]
        )

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        uri = str(params.uri)
        matched = self._offers.resource(uri, self._of(context).principal)
        if matched is None:
            raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})
        offer, arguments = matched
        client = self._client(context, params)
        value = await _answered(offer, arguments, client)
        return client.outcome() or types.ReadResourceResult(contents=[_contents(offer, uri, value)])

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Notes that a session wants to hear of changes of a resource."""
        session = self._of(context).session
        self._subscribers.put(session, {**(self._subscribers.get(session) or {}), str(params.uri): context.session})
        return types.EmptyResult()

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        session = self._of(context).session
        rest = {uri: each for uri, each in (self._subscribers.get(session) or {}).items() if uri != str(params.uri)}
        self._subscribers.put(session, rest)
        return types.EmptyResult()

    async def _complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        principal, ref = self._of(context).principal, params.ref
        offers = self._offers.prompts if isinstance(ref, types.PromptReference) else self._offers.resources
        name = ref.name if isinstance(ref, types.PromptReference) else ref.uri
        offer = next((each for each in offers if name in (each.name, each.uri) and each.visible_to(principal)), None)
        values = [] if offer is None else list(offer.completions(params.argument.name, params.argument.value))
        return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))

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


def _protocol_error(error: ToolcaddieError) -> MCPError:
    code = INVALID_PARAMS if isinstance(error, RequestError) else INTERNAL_ERROR
    return MCPError(code, str(error)[:2_000])


async def _answered(offer: Offer, arguments: Mapping[str, str], client: MCPClient) -> Any:
    """Returns what a prompt or resource returns; None if it waits for the client."""
    try:
        return await whole(offer.value(arguments, client))
    except AnswerPending:
        return None
    except ClientError as error:
        client.outcome()
        raise MCPError(INVALID_PARAMS, str(error)) from error
    except Exception as error:  # somebody's function: the log gets the traceback, the client a sentence
        log.exception("offer_failed", offer=offer.name)
        raise MCPError(INTERNAL_ERROR, f"{offer.name} failed: {type(error).__name__}") from error


def _listed_prompt(offer: Offer) -> types.Prompt:
    return types.Prompt(
        name=offer.name,
        title=offer.title,
        description=offer.description or None,
        arguments=[types.PromptArgument(name=each.name, required=each.required) for each in offer.arguments],
    )


def _described(offer: Offer) -> dict[str, Any]:
    return {
        "name": offer.name,
        "title": offer.title,
        "description": offer.description or None,
        "mime_type": offer.mime_type or None,
    }


def _messages(value: Any) -> list[types.PromptMessage]:
    """Returns the messages of a prompt: of a text, a block, a pair (role, text), or a list of them."""
    items = value if isinstance(value, list) else [value]
    pairs = [item if isinstance(item, tuple) else ("user", item) for item in items]
    return [
        types.PromptMessage(
            role=role, content=content_block(item if isinstance(item, BLOCKS) else Text(text=str(item)))
        )
        for role, item in pairs
    ]


def _contents(offer: Offer, uri: str, value: Any) -> types.TextResourceContents | types.BlobResourceContents:
    mime_type = offer.mime_type or None
    if isinstance(value, bytes):
        return types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=base64.b64encode(value).decode())
    return types.TextResourceContents(uri=uri, mime_type=mime_type, text=str(value))
