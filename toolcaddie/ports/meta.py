"""Interfaces (sockets, which plugins fill) for meta tools: tools with which the model finds or calls other tools. The run loop
answers their calls itself.

A meta tool is one file: its definition, as the model reads it, and its behaviour. A preset lists the meta tools by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from toolcaddie.core.catalog import View
from toolcaddie.core.control import Principal
from toolcaddie.core.delivery import DeliveredTool
from toolcaddie.core.meta_names import PAGE_SIZE
from toolcaddie.core.selection import Budget, SelectionQuery
from toolcaddie.core.tool import Tool, ToolCall, ToolResult
from toolcaddie.ports.selection import Selector
from toolcaddie.ports.tools import HeldPages

Prepare = Callable[[View, SelectionQuery], Awaitable[None]]
"""Fetches data for a search; awaited before the search, because a selector does no I/O."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaOffer:
    """The input of a meta tool's definition. Equal offers give identical bytes, so that the prompt cache holds."""

    categories: tuple[str, ...] = ()
    """Categories that the model may request."""
    expand_by: Literal["query", "categories"] = "query"
    """Same as `Preset.expand_by`."""
    page_size: int = PAGE_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaScene:
    """The state of a run that a meta tool may read."""

    view: View
    principal: Principal
    selector: Selector
    prepare: Prepare
    held: HeldPages | None
    """Pages of truncated results; None: not available."""
    budget: Budget
    delivered: Sequence[DeliveredTool]
    """Tools that are in the tool array of the request and may be called."""
    known: Sequence[str]
    """Names of further tools that may be called, because messages of the conversation announced them."""
    fixed_tokens: int
    """Tokens of all definitions that are already sent."""
    fixed_meta: int
    """Number of meta tools sent."""
    meta_tokens: int
    """Tokens of the meta tools, which are sent even when all other tools are selected again."""
    pinned: Sequence[str]
    """Names of tools in the caller's choice, which stay when all other tools are selected again."""
    sparing: bool
    """True: reveal only tools that fit nearly as well as the best one, because every later model call pays for them."""
    page_size: int
    """Limit of the tools on a page of `list_tools` and of the hits of a search."""
    expandable: frozenset[str] | None
    """Categories that the model may request; None: all of the view."""
    expand_by: Literal["query", "categories"]


class MetaTool(Protocol):
    """Answers a call from the state of the run. It changes the run only through `ToolResult.effect`."""

    @property
    def name(self) -> str: ...
    def definition(self, offer: MetaOffer) -> Tool: ...
    async def answer(self, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
        """Returns the result. The arguments are already validated."""
        ...


@runtime_checkable
class CallWrapper(Protocol):
    """A meta tool whose call contains the call of another tool. The inner call replaces it and passes all checks of a call."""

    @property
    def name(self) -> str: ...
    def definition(self, offer: MetaOffer) -> Tool: ...
    def unwrapped(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Returns the wrapped call. The arguments are already validated."""
        ...
