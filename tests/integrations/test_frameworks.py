"""Output tools, hand-offs, further turns and streams of the frameworks, each with 300 tools and an upstream on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from agents import Agent as DeskAgent
from agents import FunctionTool, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.server import many_names, many_tools, names_of
from toolcaddie.core.errors import ConfigError
from toolcaddie.integrations.anthropic import AnthropicTools
from toolcaddie.integrations.langchain import ToolcaddieMiddleware
from toolcaddie.integrations.openai import OpenAITools
from toolcaddie.integrations.openai_agents import ToolcaddieModel
from toolcaddie.integrations.pydantic_ai import ToolcaddieSearch
from toolcaddie.testing import ResponsesWire, ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio
set_tracing_disabled(True)
ASK = "please archive the shipment 7"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


class Report(BaseModel):
    """What was done."""

    text: str


def text_of(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()} of the office."


def doing(name: str) -> Any:
    def work(id: str) -> str:  # noqa: A002 - the name of the argument
        return f"{name} {id}"

    return work


def for_langchain() -> list[Any]:
    return [StructuredTool.from_function(doing(name), name=name, description=text_of(name)) for name in many_names(300)]


def for_pydantic_ai() -> list[Any]:
    return [Tool(doing(name), name=name, description=text_of(name)) for name in many_names(300)]


def for_agents() -> list[Any]:
    async def work(context: object, arguments: str) -> str:
        return arguments

    return [
        FunctionTool(
            name=name,
            description=text_of(name),
            params_json_schema=SCHEMA,
            on_invoke_tool=work,
            strict_json_schema=False,
        )
        for name in many_names(300)
    ]


@pytest.fixture
async def client() -> AsyncIterator[Any]:
    """Makes clients of an upstream, which end with the test."""
    clients: list[openai.AsyncOpenAI] = []

    def connect(upstream: ScriptedUpstream) -> openai.AsyncOpenAI:
        clients.append(openai.AsyncOpenAI(base_url=upstream.base_url, api_key="test-key"))
        return clients[-1]

    yield connect
    for each in clients:
        await each.close()


async def test_langchain_sends_the_output_tool_in_every_round() -> None:
    script = [call("archive_shipment", {"id": "7"}), call("Report", {"text": "archived"})]
    async with ScriptedUpstream(script) as upstream:
        model = ChatOpenAI(model="gpt-test", base_url=upstream.base_url, api_key="test-key")
        middleware = [ToolcaddieMiddleware(max_tools=5, always=["print_payroll"])]
        agent = create_agent(model, tools=for_langchain(), middleware=middleware, response_format=ToolStrategy(Report))
        answer = await agent.ainvoke({"messages": [("user", ASK)]})
    assert answer["structured_response"] == Report(text="archived")
    for body in upstream.bodies:
        assert {"Report", "archive_shipment", "print_payroll"} <= set(names_of(body))
        assert len(names_of(body)) == 8


async def test_pydantic_ai_sends_the_output_tool_and_keeps_its_list_in_the_next_run() -> None:
    script = [
        call("archive_shipment", {"id": "7"}),
        call("final_result", {"text": "archived"}),
        call("final_result", {"text": "printed"}),
    ]
    async with ScriptedUpstream(script) as upstream:
        provider = OpenAIProvider(base_url=upstream.base_url, api_key="test-key")
        agent = Agent(
            OpenAIChatModel("gpt-test", provider=provider),
            tools=for_pydantic_ai(),
            capabilities=[ToolcaddieSearch(max_tools=5)],
            output_type=Report,
        )
        first = await agent.run(ASK)
        again = await agent.run("and print the payroll", message_history=first.all_messages())
    assert again.output == Report(text="printed")
    assert all("final_result" in names_of(body) for body in upstream.bodies)
    before, after = names_of(upstream.bodies[1]), names_of(upstream.bodies[2])
    assert "print_payroll" not in before
    assert "print_payroll" in after
    selected = [name for name in before if name not in ("search_tools", "final_result")]
    assert [name for name in after if name in selected] == selected
    assert len(after) <= len(before) + 5


@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_openai_agents_sends_its_hand_offs_and_streams(wire: str, client: Any) -> None:
    script = [call("archive_shipment", {"id": "7"}), call("transfer_to_boss", {}), say("The boss says yes.")]
    upstream = ScriptedUpstream(script, wire=ResponsesWire()) if wire == "responses" else ScriptedUpstream(script)
    async with upstream:
        of_wire = OpenAIResponsesModel if wire == "responses" else OpenAIChatCompletionsModel
        inner = of_wire(model="gpt-test", openai_client=client(upstream))
        boss = DeskAgent(name="boss", model=inner)
        model = ToolcaddieModel(inner, max_tools=5)
        desk = DeskAgent(name="desk", model=model, tools=[*for_agents(), model.find_tools], handoffs=[boss])
        streamed = Runner.run_streamed(desk, ASK)
        async for _ in streamed.stream_events():
            pass
    assert streamed.final_output == "The boss says yes."
    for body in upstream.bodies[:2]:
        names = [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]
        assert {"transfer_to_boss", "archive_shipment", "find_tools"} <= set(names)
        assert len(names) == 7


async def test_an_agent_without_the_search_tool_is_refused_with_the_line_to_write(client: Any) -> None:
    async with ScriptedUpstream() as upstream:
        model = ToolcaddieModel(OpenAIChatCompletionsModel(model="gpt-test", openai_client=client(upstream)))
        with pytest.raises(ConfigError, match=r"Agent\(tools=\[\*tools, model.find_tools\]"):
            await Runner.run(DeskAgent(name="desk", model=model, tools=for_agents()), ASK)


async def test_the_responses_sdk_gets_what_fits_and_what_the_model_searched(client: Any) -> None:
    tools = OpenAITools(many_tools(300), max_tools=5)
    script = [call("find_tools", {"query": "export the payroll"}), say("Found.")]
    conversation: list[Any] = [{"role": "user", "content": ASK}]
    async with ScriptedUpstream(script, wire=ResponsesWire()) as upstream:
        for _ in script:
            answer = await client(upstream).responses.create(
                model="gpt-test", input=conversation, tools=tools.for_responses(conversation)
            )
            conversation += answer.output
            conversation += [
                {"type": "function_call_output", "call_id": item.call_id, "output": tools.answer(item.arguments)}
                for item in answer.output
                if item.type == "function_call"
            ]
    first, second = [[tool["name"] for tool in body["tools"]] for body in upstream.bodies]
    assert "archive_shipment" in first
    assert second[:6] == first
    assert "export_payroll" in second[6:]


def test_anthropics_deferred_loading_never_changes_the_list() -> None:
    definitions = [{"name": name, "description": text_of(name), "input_schema": SCHEMA} for name in many_names(300)]
    tools = AnthropicTools(definitions, deferred=True, max_tools=5)
    messages: list[Any] = [{"role": "user", "content": ASK}]
    sent = tools.for_messages(messages)
    assert len(sent) == 301
    assert "archive_shipment" in [tool["name"] for tool in sent if "defer_loading" not in tool]
    references = tools.answer({"query": "export the payroll"})
    assert {"type": "tool_reference", "tool_name": "export_payroll"} in references
    used = anthropic.types.ToolUseBlock(
        id="a", input={"query": "export the payroll"}, name="find_tools", type="tool_use"
    )
    messages += [
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": references}]},
        {"role": "user", "content": "and print the invoices"},
    ]
    assert tools.for_messages(messages) == sent


@pytest.mark.parametrize("arguments", ["", "[]", '{"query": 7}', '{"query": " "}', "[" * 5000], ids=range(5))
def test_a_malformed_search_is_answered_with_advice_and_adds_nothing(arguments: str) -> None:
    tools = OpenAITools(many_tools(300), max_tools=5)
    assert "describe the missing action" in tools.answer(arguments)
    search = {"role": "assistant", "tool_calls": [{"function": {"name": "find_tools", "arguments": arguments}}]}
    messages: list[Any] = [{"role": "user", "content": ASK}]
    assert tools.for_chat([*messages, search]) == tools.for_chat(messages)


def test_a_long_conversation_stays_below_the_providers_cap_and_has_the_newest_tools() -> None:
    tools = OpenAITools(many_tools(300), provider_cap=20, always=["print_payroll"])
    messages = [{"role": "user", "content": f"{name.replace('_', ' ')}"} for name in many_names(60)]
    names = [each["function"]["name"] for each in tools.for_chat(messages)]
    assert len(names) == 20
    assert names[:2] == ["find_tools", "print_payroll"]
    assert many_names(60)[-1] in names


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"always": ["nothing"]}, "'nothing', which is none of the agent's 300 tools"),
        ({"always": "abc"}, "takes names in a list"),
        ({"max_tools": 0}, "max_tools is 0"),
        ({"provider_cap": 1}, "they fill provider_cap=1"),
    ],
    ids=["unknown", "text", "zero", "full"],
)
def test_wrong_options_are_refused_by_name(options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        OpenAITools(many_tools(300), **options).for_chat([{"role": "user", "content": ASK}])
