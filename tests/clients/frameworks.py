"""Agents of three frameworks with 300 tools each, as their users write them, at every door of the gateway that they can use.

Each agent runs the tool that a request needs and then ends by a tool of its framework: an output tool, or a hand-off. Used by
tests/clients/test_frameworks.py and scripts/frameworks.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
from agents import Agent as Desk
from agents import FunctionTool, OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, Runner
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, Tool
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.openai import OpenAIResponsesModel as OpenAIResponses
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.errands import NAMES, needed_tool
from tests.clients.server import MODEL, names_of
from toolcaddie.testing import call, say

Ask = Callable[[str, bool], Awaitable[str]]
"""Runs an agent with a request, streamed or not, and returns its final answer."""
HAND_OFFS = ("transfer_to_boss", "transfer_to_cashier")
_SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


class Report(BaseModel):
    """What was done."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One framework at one door. `essential`: tools without which its agent cannot go on. `agent`: makes it for a server's
    address."""

    name: str
    door: str
    essential: tuple[str, ...]
    agent: Callable[[str], Ask]


def answer(name: str) -> str:
    """Returns the final answer of an agent whose request needed this tool."""
    return f"Result: {name} 7 is done"


def plays_an_agent(body: Any) -> Any:
    """The model: calls the tool of the request, then the tool by which the agent ends."""
    messages, names = body["messages"], names_of(body)
    results = [_text(message) for message in messages if message["role"] == "tool"]
    if not results:
        wanted = needed_tool(next(_text(message) for message in messages if message["role"] == "user"))
        return call(wanted, {"id": "7"}) if wanted in names else say(f"{wanted} is missing")
    report = {"text": f"Result: {results[0]}"}
    output = [name for name in ("final_result", "Report") if name in names]
    if output:
        return call(output[0], report)
    return say(report["text"]) if len(results) > 1 else call("transfer_to_boss", {})


def _text(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _work(name: str) -> Callable[[str], str]:
    def work(id: str) -> str:  # noqa: A002  the name of the tool's argument
        return f"{name} {id} is done"

    return work


def _description(name: str) -> str:
    verb, subject, place = name.split("_")
    return f"{verb.capitalize()} one {subject} at {place}."


def _openai(address: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0, timeout=20)


def _pydantic_ai(model: Any) -> Ask:
    tools = [Tool(_work(name), name=name, description=_description(name)) for name in NAMES]
    agent = Agent(model, tools=tools, output_type=Report)

    async def ask(request: str, stream: bool) -> str:
        if not stream:
            return (await agent.run(request)).output.text
        async with agent.run_stream(request) as result:
            return (await result.get_output()).text

    return ask


def _pydantic_ai_chat(address: str) -> Ask:
    return _pydantic_ai(OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=_openai(address))))


def _pydantic_ai_responses(address: str) -> Ask:
    return _pydantic_ai(OpenAIResponses(MODEL, provider=OpenAIProvider(openai_client=_openai(address))))


def _pydantic_ai_messages(address: str) -> Ask:
    client = anthropic.AsyncAnthropic(base_url=address, api_key="unused", max_retries=0, timeout=20)
    return _pydantic_ai(AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client)))


def _agents(model: Any) -> Ask:
    def tool(name: str) -> FunctionTool:
        async def work(_context: Any, _arguments: str) -> str:
            return _work(name)("7")

        return FunctionTool(
            name=name,
            description=_description(name),
            params_json_schema=_SCHEMA,
            on_invoke_tool=work,
            strict_json_schema=False,
        )

    tools: list[Any] = [tool(name) for name in NAMES]
    boss, cashier = (Desk(name=name, model=model, tools=tools) for name in ("boss", "cashier"))
    boss.handoffs = [cashier]
    desk = Desk(name="desk", model=model, tools=tools, handoffs=[boss, cashier])
    config = RunConfig(tracing_disabled=True)

    async def ask(request: str, stream: bool) -> str:
        if not stream:
            return str((await Runner.run(desk, request, run_config=config)).final_output)
        result = Runner.run_streamed(desk, request, run_config=config)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    return ask


def _agents_chat(address: str) -> Ask:
    return _agents(OpenAIChatCompletionsModel(model=MODEL, openai_client=_openai(address)))


def _agents_responses(address: str) -> Ask:
    return _agents(OpenAIResponsesModel(model=MODEL, openai_client=_openai(address)))


def _langchain(model: Any) -> Ask:
    tools = [StructuredTool.from_function(_work(name), name=name, description=_description(name)) for name in NAMES]
    agent: Any = create_agent(model, tools, response_format=ToolStrategy(Report))

    async def ask(request: str, stream: bool) -> str:
        conversation = {"messages": [{"role": "user", "content": request}]}
        if not stream:
            return str((await agent.ainvoke(conversation))["structured_response"].text)
        state: Any = {}
        async for mode, part in agent.astream(conversation, stream_mode=["messages", "values"]):
            state = part if mode == "values" else state
        return str(state["structured_response"].text)

    return ask


def _langchain_openai(address: str, *, responses: bool) -> Ask:
    model = ChatOpenAI(
        model=MODEL,
        base_url=f"{address}/v1",
        api_key="unused",
        use_responses_api=responses,
        max_retries=0,
        timeout=20,
    )
    return _langchain(model)


def _langchain_messages(address: str) -> Ask:
    return _langchain(ChatAnthropic(model=MODEL, base_url=address, api_key="unused", max_retries=0, timeout=20))


_OUTPUT = ("final_result",)
FRAMEWORKS = (
    Framework(name="Pydantic AI", door="chat", essential=_OUTPUT, agent=_pydantic_ai_chat),
    Framework(name="Pydantic AI", door="responses", essential=_OUTPUT, agent=_pydantic_ai_responses),
    Framework(name="Pydantic AI", door="messages", essential=_OUTPUT, agent=_pydantic_ai_messages),
    Framework(name="OpenAI Agents", door="chat", essential=HAND_OFFS, agent=_agents_chat),
    Framework(name="OpenAI Agents", door="responses", essential=HAND_OFFS, agent=_agents_responses),
    Framework(
        name="LangChain", door="chat", essential=("Report",), agent=lambda url: _langchain_openai(url, responses=False)
    ),
    Framework(
        name="LangChain",
        door="responses",
        essential=("Report",),
        agent=lambda url: _langchain_openai(url, responses=True),
    ),
    Framework(name="LangChain", door="messages", essential=("Report",), agent=_langchain_messages),
)


def missing_tools(framework: Framework, body: Any) -> set[str]:
    """Returns the essential tools that a request to the upstream lacks. The boss can only hand over to the cashier."""
    boss = any(message["role"] == "tool" and "boss" in _text(message) for message in body["messages"])
    needed = set(framework.essential) - ({"transfer_to_boss"} if boss else set())
    return needed - set(names_of(body))
