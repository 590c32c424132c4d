"""Interfaces (sockets, which plugins fill) for tools: sources, which have tools and run them, and middleware around calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from toolcaddie.core.assessment import Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolCall, ToolResult


@runtime_checkable
class ToolSource(Protocol):
    """A source that has tools and runs them. `revision` changes whenever the result of `tools()` or `categories()` changes."""

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> int: ...
    def tools(self) -> Sequence[Tool]: ...
    def categories(self) -> Sequence[Category]: ...
    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        """Runs a tool. The arguments are already validated. If the source no longer has the tool, it
        returns an error of kind 'revoked'.

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
        """Names that this source may use although they are reserved for shipped tools (`core.reserved`)."""
        ...


@runtime_checkable
class AssessingSource(ToolSource, Protocol):
    """A source that judges each call by its arguments before the policy does."""

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Returns the judgement of a call that has passed its schema, without any effect on the world. The call may then be
        denied, wait for a person for days, or run at once. If this raises an exception, the call is denied."""
        ...


@runtime_checkable
class WrappingSource(ToolSource, Protocol):
    """A source that shows the tools of others."""

    @property
    def wrapped(self) -> Sequence[ToolSource]: ...


class HeldPages(Protocol):
    """Reads further pages of truncated results. A page of an untrusted tool's result has the effect `Taint`."""

    async def page(self, handle: str, offset: int, limit: int, principal: Principal) -> ToolResult: ...


class Invocation(Struct, frozen=True, kw_only=True):
    """A call that has passed all checks (permission, approval, limits) and is on its way to the source of its tool."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    context: RunContext
    seconds: float
    """Timeout of the call."""
    whole: bool = False
    """True: a program reads the result, so it is not cut."""
    approved: bool = False
    """True: a person approved the call. It runs only if the source still has exactly this tool."""


CallNext = Callable[[Invocation], Awaitable[ToolResult]]
"""Runs the rest of the chain: the next middleware or, after the last one, the tool."""


class Middleware(Protocol):
    """Wraps a call: awaits `call_next(invocation)` or returns a result of its own. The first one of a list is the outermost."""

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult: ...
