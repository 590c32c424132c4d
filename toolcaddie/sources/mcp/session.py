"""One session with an MCP server in either generation of the protocol: connect, list, call. It begins and ends in the task that
owns it (`link.py`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any, TypeVar

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from toolcaddie.core.errors import OutboundError
from toolcaddie.sources.mcp.definitions import Definition
from toolcaddie.sources.mcp.questions import Questions
from toolcaddie.sources.mcp.results import (
    prompt_definition,
    resource_definition,
    template_definition,
    tool_definition,
)
from toolcaddie.sources.mcp.server import McpServer
from toolcaddie.util.tracing import trace_headers

T = TypeVar("T")

_MOST_PAGES = 200
"""The largest number of pages of one list."""
_MOST_QUESTIONS = 10
"""The largest number of rounds in which a server asks something before it answers a call."""
_LIST_CHANGES = (
    types.ToolListChangedNotification,
    types.ResourceListChangedNotification,
    types.PromptListChangedNotification,
)
CLIENT_INFO = types.Implementation(name="toolcaddie", version=metadata.version("toolcaddie"))


class Session(ClientSession):
    """A session of the protocol's package without its check of structured results: it compiles the server's patterns with a
    module that they could block for ever. Results are checked later like those of all tools."""

    def __init__(self, read: Any, write: Any, questions: Questions, **more: Any) -> None:
        super().__init__(read, write, client_info=CLIENT_INFO, **questions.callbacks(), **more)
        self._questions = questions

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        return None

    async def dispatch_input_request(
        self, ctx: ClientRequestContext, request: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        self._questions.note(request)
        return await super().dispatch_input_request(ctx, request)

    @property
    def is_modern(self) -> bool:
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS


@asynccontextmanager
async def session_over(
    read: Any, write: Any, server: McpServer, questions: Questions, on_change: Callable[[], None]
) -> AsyncIterator[Session]:
    """Yields a session on which the version of the protocol is agreed. `on_change` is called when the server says that one of
    its lists has changed."""

    async def on_message(message: Any) -> None:
        if isinstance(message, _LIST_CHANGES):
            on_change()

    async with Session(read, write, questions, message_handler=on_message) as session:
        await _negotiate(session, server.protocol)
        yield session


async def _negotiate(session: Session, protocol: str) -> None:
    """Agrees on a version. `auto` tries the newer generation first; a server of the older one answers with an error."""
    if protocol in HANDSHAKE_PROTOCOL_VERSIONS:
        await session.initialize()
    elif protocol in MODERN_PROTOCOL_VERSIONS:
        await session.discover()
    else:
        try:
            await session.discover()
        except (MCPError, RuntimeError, ValueError) as error:
            if _speaks_only_newer(error):
                raise
            await _handshake(session)


async def _handshake(session: Session) -> None:
    """Agrees on a version of the older generation. If the server was only slow to answer for the newer one, and speaks that by
    now, it is asked again until it answers; the time for connecting limits that."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
    else:
        return
    while True:
        try:
            await session.discover()
        except MCPError as error:
            if error.code != types.REQUEST_TIMEOUT:
                raise
        else:
            return


def _speaks_only_newer(error: Exception) -> bool:
    """Returns True if a server has refused the version and names only versions without a handshake."""
    if not isinstance(error, MCPError) or error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
        return False
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return isinstance(supported, list) and not any(version in HANDSHAKE_PROTOCOL_VERSIONS for version in supported)


async def list_everything(session: Session, server: McpServer) -> list[Definition]:
    """Returns the definitions of the server's tools and, if the settings ask for them, of its resources and prompts. Raises
    `OutboundError` for a list that is too long."""
    has = session.server_capabilities or types.ServerCapabilities()
    definitions: list[Definition] = []
    # A server that declares nothing is asked for tools all the same: many forget to declare them.
    if has.tools is not None or not server.resources | server.prompts:
        definitions += await _all_pages(session.list_tools, lambda page: page.tools, tool_definition, server)
    if server.resources and has.resources is not None:
        definitions += await _all_pages(
            session.list_resources, lambda page: page.resources, resource_definition, server
        )
        definitions += await _all_pages(
            session.list_resource_templates, lambda page: page.resource_templates, template_definition, server
        )
    if server.prompts and has.prompts is not None:
        definitions += await _all_pages(session.list_prompts, lambda page: page.prompts, prompt_definition, server)
    return definitions


async def _all_pages(
    fetch: Callable[..., Awaitable[Any]],
    items_of: Callable[[Any], list[Any]],
    convert: Callable[[Any], Definition],
    server: McpServer,
) -> list[Definition]:
    definitions: list[Definition] = []
    cursor: str | None = None
    cursors: set[str] = set()
    for _ in range(_MOST_PAGES):
        page = await fetch(params=types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None)
        definitions += map(convert, items_of(page))
        if len(definitions) > server.max_tools:
            raise OutboundError(
                f"it lists more than {server.max_tools:,} definitions; raise max_tools of this source if they are wanted"
            )
        cursor = page.next_cursor
        if not cursor:
            return definitions
        if cursor in cursors:
            raise OutboundError("its list of definitions never ends: it sends the same page again")
        cursors.add(cursor)
    raise OutboundError(f"its list of definitions has more than {_MOST_PAGES} pages")


async def call_tool(
    session: Session, name: str, arguments: dict[str, Any], *, seconds: float | None, on_progress: ProgressFnT
) -> types.CallToolResult:
    """Calls a tool and answers the questions that the server asks meanwhile."""
    ends = None if seconds is None else time.monotonic() + seconds
    traced: Any = dict(trace_headers()) or None  # MCP has them in the metadata of a request, whatever carries it

    async def send(answers: Any, state: str | None) -> Any:
        return await session.call_tool(
            name,
            arguments,
            read_timeout_seconds=None if ends is None else max(0.001, ends - time.monotonic()),
            progress_callback=on_progress,
            input_responses=answers,
            request_state=state,
            meta=traced,
            allow_input_required=True,
        )

    async def send_with_headers(answers: Any, state: str | None) -> Any:
        try:
            return await send(answers, state)
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH or not session.is_modern:
                raise
            await session.list_tools()  # the arguments that go into headers have changed; the list says which
            return await send(answers, state)

    return await _answered(session, send_with_headers, types.CallToolResult)


async def read_resource(session: Session, uri: str) -> types.ReadResourceResult:
    """Reads a resource."""

    async def send(answers: Any, state: str | None) -> Any:
        return await session.read_resource(uri, input_responses=answers, request_state=state, allow_input_required=True)

    return await _answered(session, send, types.ReadResourceResult)


async def get_prompt(session: Session, name: str, arguments: dict[str, str]) -> types.GetPromptResult:
    """Gets a prompt."""

    async def send(answers: Any, state: str | None) -> Any:
        return await session.get_prompt(
            name, arguments, input_responses=answers, request_state=state, allow_input_required=True
        )

    return await _answered(session, send, types.GetPromptResult)


async def _answered(session: Session, send: Callable[[Any, str | None], Awaitable[Any]], kind: type[T]) -> T:
    """Sends a request until it is answered; in between, the server may ask for something (newer generation only)."""
    outcome = await send(None, None)
    for number in range(_MOST_QUESTIONS):
        if not isinstance(outcome, types.InputRequiredResult):
            break
        answers: dict[str, Any] | None = {}
        for key, question in (outcome.input_requests or {}).items():
            context = ClientRequestContext(session=session, request_id=key)
            answer = await session.dispatch_input_request(context, question)
            if isinstance(answer, types.ErrorData):
                raise MCPError.from_error_data(answer)
            assert answers is not None
            answers[key] = answer
        if not outcome.input_requests:
            answers = None
            await _pause(number)
        outcome = await send(answers, outcome.request_state)
    if not isinstance(outcome, kind):
        raise OutboundError(f"the server asked for more than {_MOST_QUESTIONS} rounds instead of answering")
    return outcome


async def _pause(number: int) -> None:
    """Waits before a request that the server wants repeated without asking anything."""
    await asyncio.sleep(min(0.25, 0.05 * 2**number))
