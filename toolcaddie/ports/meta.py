"""Sockets of the meta tools: tools about tools, which the engine answers itself.

A meta tool is one file: its definition, as the model reads it, and its behaviour. A preset names it.
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
"""Awaited before a search: a selector does no I/O, so whatever it needs from elsewhere is fetched here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaOffer:
    """What definitions may depend on. They are byte-stable for it, so that the prompt cache holds."""

    categories: tuple[str, ...] = ()
    """The categories that the model may ask for."""
    expand_by: Literal["query", "categories"] = "query"
    """`presets.Preset.expand_by`."""
    page_size: int = PAGE_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaScene:
    """What a meta tool may look at."""

    view: View
    principal: Principal
    selector: Selector
    prepare: Prepare
    held: HeldPages | None
    """Where cut results are read on; None: nowhere."""
    budget: Budget
    delivered: Sequence[DeliveredTool]
    """Tools that can be called and take a place in the array."""
    known: Sequence[str]
    """Further tools that can be called."""
    fixed_tokens: int
    """Tokens of all that is sent already."""
    fixed_meta: int
    """Number of meta tools sent."""
    meta_tokens: int
    """Tokens of the meta tools: sent even when everything else is chosen again."""
    pinned: Sequence[str]
    """Tools that the caller's choice names: they stay when everything else is chosen again."""
    sparing: bool
    """Every later call pays for what is revealed, so only tools nearly as good as the best one are."""
    page_size: int
    """Most tools of a page of `list_tools`, and most hits of a search."""
    expandable: frozenset[str] | None
    """The categories that the model may ask for; None: all of the view."""
    expand_by: Literal["query", "categories"]


class MetaTool(Protocol):
    """Answers a call from what the run can see. It changes the run by the effect of its result and in no other way."""

    @property
    def name(self) -> str: ...
    def definition(self, offer: MetaOffer) -> Tool: ...
    async def answer(self, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
        """The arguments fit the schema already."""
        ...


@runtime_checkable
class CallWrapper(Protocol):
    """A meta tool that stands for the call of another tool, which passes every gate in its place."""

    @property
    def name(self) -> str: ...
    def definition(self, offer: MetaOffer) -> Tool: ...
    def unwrapped(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """The call inside. The arguments fit the schema already."""
        ...
