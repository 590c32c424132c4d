"""Sockets around tools: what gives them, and what stands around a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from toolcaddie.core.catalog import Category
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolCall, ToolResult


@runtime_checkable
class ToolSource(Protocol):
    """Where tools come from and who runs them. `revision` changes whenever `tools()` or `categories()` would."""

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> int: ...
    def tools(self) -> Sequence[Tool]: ...
    def categories(self) -> Sequence[Category]: ...
    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        """Run it. Arguments are checked already. A tool this source holds no longer answers with kind 'revoked'.

        A call that takes too long, or whose caller has left, is cancelled: `asyncio.CancelledError` is raised where it waits.
        """
        ...


@runtime_checkable
class OpenableSource(ToolSource, Protocol):
    """A source that connects to something before it has tools: a server, a process, a file that is watched.

    It may be opened again after it was closed, in another event loop too. What it opened belongs to the loop it was opened in.
    """

    async def open(self) -> None:
        """Connect, and hold tools on return. Whatever it raises is reported with the source's name; it holds nothing then."""
        ...

    async def close(self) -> None:
        """Give back everything that was opened. Safe when nothing is open."""
        ...


@runtime_checkable
class ClaimingSource(ToolSource, Protocol):
    """A source that ships with the product."""

    @property
    def claims(self) -> frozenset[str]:
        """The reserved names (`core.reserved`) that are its own."""
        ...


class HeldPages(Protocol):
    """Where results that were cut can be read on."""

    async def page(self, handle: str, offset: int, limit: int, principal: Principal) -> ToolResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call on its way to its source, past every gate."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    context: RunContext
    seconds: float
    """The timeout that holds for it."""


CallNext = Callable[[Invocation], Awaitable[ToolResult]]


class Middleware(Protocol):
    """Around a call. The first of a list is the outermost."""

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult: ...
