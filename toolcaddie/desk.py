"""The tools of one caller, without a model: list, search, schema, call.

`Runtime.desk`, `Runtime.call` and the command `toolcaddie tools` use it to show or run tools outside a conversation. It shows
only the tools that the caller may see. Its calls pass the same checks as the calls of a model, such as policy and approval.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolcaddie.core.catalog import View
from toolcaddie.core.client import CallerClient
from toolcaddie.core.errors import RequestError
from toolcaddie.core.events import RunEvent
from toolcaddie.core.meta_names import PAGE_SIZE
from toolcaddie.core.run import RunRequest
from toolcaddie.core.tool import Taint, Tool, ToolResult, failed
from toolcaddie.meta.lookup import ToolPage, first_hits, function_definition, search_hits, tool_page
from toolcaddie.ports import HeldPages, Prepare, Selector
from toolcaddie.util.suggest import close_names

Listener = Callable[[RunEvent], Awaitable[None]]


class Caller(Protocol):
    """Runs one tool for a request, with the checks that every call passes."""

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        request: RunRequest,
        view: View,
        *,
        taint: Sequence[str] | None = None,
        live: Listener | None = None,
        client: CallerClient | None = None,
    ) -> ToolResult: ...

    async def taint(self, request: RunRequest, *, seconds: float | None = None) -> Sequence[str]: ...
    async def add_taint(self, request: RunRequest, names: Sequence[str]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDesk:
    """The tools that the principal of a request may see at one moment. It does not follow changes, so each request needs a new
    desk."""

    request: RunRequest
    """The request behind the desk: its principal, `injected` and `run_id` for its calls, and `conversation`: with a name, what
    its calls of untrusted tools return taints later calls, turns and desks of the same conversation."""
    view: View
    """The tools that the principal may see."""
    selector: Selector
    prepare: Prepare
    """Fetches the data of a search, such as vectors, before the search."""
    caller: Caller
    """Runs the calls."""
    page_size: int = PAGE_SIZE
    taint: Sequence[str] | None = None
    """Tools whose untrusted results the caller has read before. None: those that the conversation remembers."""
    held: HeldPages | None = None
    """Reads truncated results further; None: they are not stored."""

    def list(self, *, category: str | None = None, offset: int = 0, limit: int | None = None) -> ToolPage:
        """Returns one page of the tools, in catalog order."""
        return tool_page(self.view, category=category, offset=offset, limit=limit or self.page_size)

    async def search(self, query: str, *, limit: int | None = None) -> Sequence[Tool]:
        """Returns the tools that match some words, the best first."""
        return await search_hits(self.view, self.selector, self.prepare, query, limit or first_hits(self.page_size))

    def tool(self, name: str) -> Tool:
        """Returns the tool of a name. Raises `RequestError`, with similar names, if the caller may see no such tool."""
        tool = self.view.get(name)
        if tool is None:
            close = close_names(name, [visible.name for visible in self.view])
            hint = f"did you mean {', '.join(close)}?" if close else "list or search the tools there are"
            raise RequestError(f"there is no tool {name[:64]!r}; {hint}", param="name", code="unknown_tool")
        return tool

    def schema(self, name: str) -> Mapping[str, Any]:
        """Returns name, description and parameters of a tool as a model reads them. Raises `RequestError` as `tool` does."""
        definition: Mapping[str, Any] = function_definition(self.tool(name))
        return definition

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        live: Listener | None = None,
        client: CallerClient | None = None,
    ) -> ToolResult:
        """Runs a tool with the checks that every call passes. If the call is refused or fails, the result says so; this includes
        unknown names.

        `live`: receives the events of the call, such as its progress. `client`: answers the tool's questions.
        """
        return await self.caller.call(
            name, arguments, self.request, self.view, taint=self.taint, live=live, client=client
        )

    async def read_on(self, handle: str, offset: int, limit: int) -> ToolResult:
        """Returns `limit` characters of a truncated result from `offset` on. The text of an untrusted tool taints the
        conversation of the desk; the result then has the effect `Taint`. Raises `StorageError`."""
        if self.held is None:
            return failed("Truncated results are not stored here.")
        page = await self.held.page(handle, offset, limit, self.request.principal)
        if isinstance(page.effect, Taint):
            await self.caller.add_taint(self.request, page.effect.names)
        return page

    async def remembered_taint(self, *, seconds: float | None = None) -> Sequence[str]:
        """Returns the tools whose untrusted results earlier calls of the conversation returned in the last `seconds` (None: in
        the last 30 days), and those of its turns; none if the desk has no conversation."""
        return await self.caller.taint(self.request, seconds=seconds)
