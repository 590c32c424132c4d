"""The capability for Pydantic AI's agents: tools that fit the prompt are sent, and the others are found by the tool search of the
framework, whose strategy is our selection.

agent = Agent(model, toolsets=[...], capabilities=[ToolcaddieSearch()])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolcaddie.integrations.offering import Entry, Offering, Turn, missing
from toolcaddie.ports import Embedder

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import ToolSearch
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        NativeToolSearchReturnPart,
        TextPart,
        ToolCallPart,
        ToolSearchReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
except ModuleNotFoundError as error:
    raise missing(error, "pydantic-ai-slim") from error


class ToolcaddieSearch(ToolSearch[Any]):
    """Selects the agent's tools for each request. The arguments are those of `Offering`.

    Tools that do not fit are deferred: the framework hides them until the model finds them with `search_tools`. A provider with
    tool search of its own receives them marked as deferred. Output tools are always sent.
    """

    def __init__(
        self,
        *,
        max_tools: int = 12,
        always: Iterable[str] = (),
        provider_cap: int = 128,
        embedder: Embedder | str | None = None,
    ) -> None:
        self._offering = Offering(max_tools=max_tools, always=always, provider_cap=provider_cap, embedder=embedder)
        super().__init__(strategy=self._search)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return _SearchFirst(super().get_wrapper_toolset(_Deferring(toolset, self._offering)))

    def _search(self, ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]) -> list[str]:
        """Searches for the framework, as its `ToolSearchFunc`."""
        return list(self._offering.search(_entries(tools), "; ".join(queries)))


@dataclass
class _Deferring(WrapperToolset[Any]):
    """A toolset that defers the tools that do not fit the conversation."""

    offering: Offering

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await self.wrapped.get_tools(ctx)
        if not tools:
            return tools
        names = self.offering.names(_entries(tool.tool_def for tool in tools.values()), _turns(ctx))
        ordered = {name: tools[name] for name in names} | tools
        sent = set(names) - ctx.discovered_tool_names  # the framework shows those that were discovered
        return {name: tool if name in sent else _deferred(tool) for name, tool in ordered.items()}


@dataclass
class _SearchFirst(WrapperToolset[Any]):
    """A toolset that puts the search before the other tools, so that a growing list grows at its end."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await self.wrapped.get_tools(ctx)
        return {name: tools[name] for name in (ToolSearch.function_tool_name,) if name in tools} | tools


def _deferred(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    return replace(tool, tool_def=replace(tool.tool_def, defer_loading=True))


def _entries(tools: Iterable[ToolDefinition]) -> list[Entry]:
    return [Entry(tool.name, tool.description or "") for tool in tools]


def _turns(ctx: RunContext[Any]) -> list[Turn]:
    """Returns the transcript, with the tools that the framework's search found as calls."""
    turns = [turn for message in ctx.messages for turn in _turns_of(message)]
    if ctx.prompt is not None and not any(turn.role == "user" for turn in turns):
        turns.append(Turn("user", _text(ctx.prompt)))
    return turns


def _turns_of(message: ModelMessage) -> list[Turn]:
    found = [part for part in message.parts if isinstance(part, ToolSearchReturnPart | NativeToolSearchReturnPart)]
    turns = [Turn("assistant", calls=tuple((match["name"], None) for match in part.discovered_tools)) for part in found]
    if isinstance(message, ModelRequest):
        return turns + [Turn("user", _text(part.content)) for part in message.parts if isinstance(part, UserPromptPart)]
    text = "\n".join(part.content for part in message.parts if isinstance(part, TextPart))
    calls = tuple((part.tool_name, None) for part in message.parts if isinstance(part, ToolCallPart))
    return [*turns, Turn("assistant", text, calls)]


def _text(content: Any) -> str:
    """Returns the text of a prompt, without its images and files."""
    parts = [content] if isinstance(content, str) else content
    return "\n".join(part for part in parts if isinstance(part, str))
