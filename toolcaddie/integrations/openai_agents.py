"""The model wrapper for the OpenAI Agents SDK: each request carries the tools that fit, and `find_tools` for the others.

model = ToolcaddieModel(OpenAIChatCompletionsModel(...))
agent = Agent(name="Desk", model=model, tools=[*tools, model.find_tools])
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from toolcaddie.core.errors import ConfigError
from toolcaddie.integrations.offering import (
    FIND_DESCRIPTION,
    FIND_SCHEMA,
    FIND_TOOLS,
    Entry,
    Offering,
    missing,
    query_of,
)
from toolcaddie.integrations.transcripts import response_turns
from toolcaddie.ports import Embedder

try:
    from agents import FunctionTool, Model, ModelResponse, Tool
    from agents.items import TResponseStreamEvent
    from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
    from agents.tool_context import ToolContext
except ModuleNotFoundError as error:
    raise missing(error, "openai-agents") from error


class ToolcaddieModel(Model):
    """A model that receives the tools that fit each request. The arguments are those of `Offering`.

    Function tools are selected, including those of MCP servers. Hosted tools and hand-offs are always sent.
    """

    def __init__(
        self,
        model: Model,
        *,
        max_tools: int = 12,
        always: Iterable[str] = (),
        provider_cap: int = 128,
        embedder: Embedder | str | None = None,
    ) -> None:
        if not isinstance(model, Model):
            raise ConfigError(f"ToolcaddieModel takes a Model of the Agents SDK, not a {type(model).__name__}")
        self._model = model
        self._offering = Offering(max_tools=max_tools, always=always, provider_cap=provider_cap, embedder=embedder)
        self.find_tools = FunctionTool(
            name=FIND_TOOLS, description=FIND_DESCRIPTION, params_json_schema=FIND_SCHEMA, on_invoke_tool=self._find
        )

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002 - the SDK's name
        model_settings: Any,
        tools: list[Tool],
        *more: Any,
        **named: Any,
    ) -> ModelResponse:
        sent = self._selected(input, tools)
        return await self._model.get_response(system_instructions, input, model_settings, sent, *more, **named)

    def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002 - the SDK's name
        model_settings: Any,
        tools: list[Tool],
        *more: Any,
        **named: Any,
    ) -> AsyncIterator[TResponseStreamEvent]:
        sent = self._selected(input, tools)
        return self._model.stream_response(system_instructions, input, model_settings, sent, *more, **named)

    async def close(self) -> None:
        await self._model.close()

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        return self._model.get_retry_advice(request)

    def _selected(self, transcript: str | Sequence[Any], tools: Sequence[Tool]) -> list[Tool]:
        functions = _functions(tools)
        if functions and not any(tool.name == FIND_TOOLS for tool in tools):
            raise ConfigError(
                "the agent lacks the tool find_tools; write Agent(tools=[*tools, model.find_tools], ...), because the model "
                "needs it for tools that were not selected"
            )
        names = self._offering.names(_entries(functions.values()), response_turns(transcript)) if functions else ()
        others = [tool for tool in tools if tool.name not in functions]
        return [*others, *(functions[name] for name in names)]

    async def _find(self, context: ToolContext[Any], arguments: str) -> str:
        if context.agent is None:
            raise ConfigError(f"{FIND_TOOLS} was called outside an agent")
        tools = await context.agent.get_all_tools(context)
        return self._offering.answer(_entries(_functions(tools).values()), query_of(arguments))


def _functions(tools: Iterable[Tool]) -> Mapping[str, FunctionTool]:
    return {tool.name: tool for tool in tools if isinstance(tool, FunctionTool) and tool.name != FIND_TOOLS}


def _entries(tools: Iterable[FunctionTool]) -> list[Entry]:
    return [Entry(tool.name, tool.description) for tool in tools]
