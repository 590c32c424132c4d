"""The middleware for LangChain's agents: each request to the model carries the tools that fit, and `find_tools` for the others.

agent = create_agent(model, tools=tools, middleware=[ToolcaddieMiddleware()])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from toolcaddie.integrations.offering import FIND_DESCRIPTION, FIND_SCHEMA, FIND_TOOLS, Entry, Offering, Turn, missing
from toolcaddie.ports import Embedder

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from langchain_core.tools import BaseTool, StructuredTool
except ModuleNotFoundError as error:
    raise missing(error, "langchain") from error


class ToolcaddieMiddleware(AgentMiddleware[Any, Any, Any]):
    """Selects the agent's tools for each request. The arguments are those of `Offering`.

    Tools of the provider, which are dicts, and the tools of a structured output are always sent.
    """

    def __init__(
        self,
        *,
        max_tools: int = 12,
        always: Iterable[str] = (),
        provider_cap: int = 128,
        embedder: Embedder | str | None = None,
    ) -> None:
        super().__init__()
        self._offering = Offering(max_tools=max_tools, always=always, provider_cap=provider_cap, embedder=embedder)
        self._entries: Sequence[Entry] = ()  # of the last request, for `find_tools`; replaced, never changed
        self._find_tools = StructuredTool.from_function(
            self._find, name=FIND_TOOLS, description=FIND_DESCRIPTION, args_schema=FIND_SCHEMA
        )
        self.tools = [self._find_tools]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(self._narrowed(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        return await handler(self._narrowed(request))

    def _narrowed(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Returns the request with the tools that fit its messages."""
        tools = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool) and tool.name != FIND_TOOLS}
        self._entries = [Entry(tool.name, tool.description) for tool in tools.values()]
        names = self._offering.names(self._entries, _turns(request.messages))
        of_provider = [tool for tool in request.tools if isinstance(tool, dict)]
        return request.override(tools=[*of_provider, self._find_tools, *(tools[name] for name in names)])

    def _find(self, query: str) -> str:
        return self._offering.answer(self._entries, query)


def _turns(messages: Sequence[BaseMessage]) -> list[Turn]:
    turns = []
    for message in messages:
        if isinstance(message, HumanMessage):
            turns.append(Turn("user", str(message.text)))
        elif isinstance(message, AIMessage):
            calls = tuple((call["name"], call["args"]) for call in message.tool_calls)
            turns.append(Turn("assistant", str(message.text), calls))
    return turns
