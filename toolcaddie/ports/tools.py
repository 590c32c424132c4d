"""Sockets around tools: their sources, and middleware around their calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from toolcaddie.core.catalog import Category
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolCall, ToolResult


@runtime_checkable
class ToolSource(Protocol):
    """A source that has tools and runs them. `revision` changes whenever `tools()` or `categories()` would."""

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> int: ...
    def tools(self) -> Sequence[Tool]: ...
    def categories(self) -> Sequence[Category]: ...
    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        """Runs a tool. The arguments are already validated. For a tool it no longer has, the result is an error 'revoked'.

        A call that takes too long, or whose caller has disconnected, is cancelled with `asyncio.CancelledError`.
        """
        ...


@runtime_checkable
class OpenableSource(ToolSource, Protocol):
    """A source that connects before it has tools: to a server, a process, a watched file.

    It may be opened again after it was closed, in another event loop too. Its connections belong to the loop it was opened in.
    """

    async def open(self) -> None:
        """Connects; on return the source has its tools. An exception is reported with the source's name; nothing stays open."""
        ...

    async def close(self) -> None:
        """Closes everything that was opened. Safe if nothing is open."""
        ...


@runtime_checkable
class ClaimingSource(ToolSource, Protocol):
    """A source that ships with the product."""

    @property
    def claims(self) -> frozenset[str]:
        """Reserved names (`core.reserved`) that this source may use."""
        ...


class HeldPages(Protocol):
    """Reads further pages of truncated results."""

    async def page(self, handle: str, offset: int, limit: int, principal: Principal) -> ToolResult: ...


class Invocation(Struct, frozen=True, kw_only=True):
    """One call on its way to its source, past every gate."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    context: RunContext
    seconds: float
    """Its timeout."""


CallNext = Callable[[Invocation], Awaitable[ToolResult]]


class Middleware(Protocol):
    """Wraps a call. The first of a list is the outermost."""

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult: ...
