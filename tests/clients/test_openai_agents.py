"""The OpenAI Agents SDK, as it comes, against the gateway: hand-offs are tools named `transfer_to_<agent>`."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    handoff,
)
from pydantic import BaseModel

from tests.clients.server import MODEL, Stage, many_names, names_of
from toolcaddie.testing import call, calls, endless, refuse, say


class Report(BaseModel):
    city: str
    degrees: int


async def _work(_context: Any, arguments: str) -> str:
    return f"done with {arguments}"


def tool(name: str, description: str) -> FunctionTool:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    return FunctionTool(name=name, description=description, params_json_schema=schema, on_invoke_tool=_work)


def office(count: int) -> list[FunctionTool]:
    return [tool(name, f"{name.replace('_', ' ').capitalize()} of the office.") for name in many_names(count)]


WEATHER = tool("get_weather", "The weather of a city.")


@pytest.fixture
def chat(stage: Stage) -> OpenAIChatCompletionsModel:
    client = openai.AsyncOpenAI(base_url=stage.base_url, api_key="unused", timeout=20)
    return OpenAIChatCompletionsModel(model=MODEL, openai_client=client)


def agent(chat: OpenAIChatCompletionsModel, **options: Any) -> Agent[None]:
    return Agent(**{"name": "Triage", "model": chat, **options})


def run(agent: Agent[None], message: str) -> Any:
    return asyncio.run(Runner.run(agent, message, run_config=RunConfig(tracing_disabled=True)))


def test_plain_chat_and_its_usage(stage: Stage, chat: OpenAIChatCompletionsModel) -> None:
    stage.plays(say("Rain."))
    result = run(agent(chat), "the weather in Oslo?")
    assert result.final_output == "Rain."
    assert result.context_wrapper.usage.total_tokens == 110


@pytest.mark.parametrize("others", [0, 250])
def test_a_tool_is_called_and_its_result_answered(stage: Stage, chat: OpenAIChatCompletionsModel, others: int) -> None:
    stage.plays(call("get_weather", {"id": "Oslo"}), say("8 degrees."))
    assert run(agent(chat, tools=[*office(others), WEATHER]), "the weather in Oslo?").final_output == "8 degrees."
    assert stage.bodies[1]["messages"][-1]["content"] == 'done with {"id":"Oslo"}'


def test_parallel_calls_are_all_answered(stage: Stage, chat: OpenAIChatCompletionsModel) -> None:
    stage.plays(calls(("get_weather", {"id": "Oslo"}), ("get_weather", {"id": "Rome"})), say("Both."))
    settings = ModelSettings(parallel_tool_calls=True)
    result = run(agent(chat, tools=[*office(60), WEATHER], model_settings=settings), "the weather in Oslo and Rome?")
    assert result.final_output == "Both."
    assert [message["role"] for message in stage.bodies[1]["messages"][-2:]] == ["tool", "tool"]


@pytest.mark.parametrize("others", [0, 60, 250])
def test_every_hand_off_is_offered_whatever_else_there_is(
    stage: Stage, chat: OpenAIChatCompletionsModel, others: int
) -> None:
    spanish = agent(chat, name="Spanish agent", handoff_description="Speaks Spanish")
    billing = agent(chat, name="Billing", tools=office(others))
    triage = agent(chat, tools=office(others), handoffs=[spanish, billing])
    stage.plays(call("transfer_to_billing", {}), say("Paid."))
    result = run(triage, "archive the ticket")
    assert result.last_agent.name == "Billing"
    assert result.final_output == "Paid."
    offered = [tool["function"]["name"] for tool in stage.bodies[0]["tools"]]
    assert {"transfer_to_billing", "transfer_to_spanish_agent"} <= set(offered)


def test_a_hand_off_with_a_name_of_its_own_is_offered(stage: Stage, chat: OpenAIChatCompletionsModel) -> None:
    billing = agent(chat, name="Billing")
    triage = agent(chat, tools=office(250), handoffs=[handoff(billing, tool_name_override="ask_the_accountant")])
    stage.plays(call("ask_the_accountant", {}), say("Paid."))
    assert run(triage, "archive the ticket").last_agent.name == "Billing"
    assert "ask_the_accountant" in names_of(stage.bodies[0])


def test_output_of_a_type(stage: Stage, chat: OpenAIChatCompletionsModel) -> None:
    stage.plays(say('{"city": "Oslo", "degrees": 8}'))
    result = run(agent(chat, tools=office(120), output_type=Report), "the weather in Oslo?")
    assert result.final_output == Report(city="Oslo", degrees=8)


def test_a_run_is_streamed_with_its_calls(stage: Stage, chat: OpenAIChatCompletionsModel) -> None:
    async def streamed() -> tuple[str, list[str]]:
        result = Runner.run_streamed(agent(chat, tools=[*office(120), WEATHER]), "the weather in Oslo?")
        kinds = [event.type async for event in result.stream_events()]
        return result.final_output, kinds

    stage.plays(call("get_weather", {"id": "Oslo"}), say("It rains in Oslo."))
    output, kinds = asyncio.run(streamed())
    assert output == "It rains in Oslo."
    assert kinds.count("run_item_stream_event") >= 3


def test_a_stream_that_is_cancelled_ends_the_request_to_the_upstream(
    stage: Stage, chat: OpenAIChatCompletionsModel
) -> None:
    async def cancelled() -> None:
        result = Runner.run_streamed(agent(chat, tools=office(30)), "go on")
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                result.cancel()

    stage.plays(endless())
    asyncio.run(cancelled())
    stage.wait_for("client left")


def test_an_upstream_that_fails_is_tried_again_by_the_client(stage: Stage, chat: OpenAIChatCompletionsModel) -> None:
    stage.plays(refuse(429, "not now", headers={"retry-after": "0"}), say("Rain."))
    assert run(agent(chat, tools=office(30)), "the weather?").final_output == "Rain."


def test_several_turns(stage: Stage, chat: OpenAIChatCompletionsModel) -> None:
    talker = agent(chat, tools=[*office(120), WEATHER])
    stage.plays(call("get_weather", {"id": "Oslo"}), say("8 degrees."), say("In degrees Celsius."))

    async def talk() -> Any:
        first = await Runner.run(talker, "the weather in Oslo?")
        return await Runner.run(talker, [*first.to_input_list(), {"role": "user", "content": "in which unit?"}])

    assert asyncio.run(talk()).final_output == "In degrees Celsius."


def test_an_agent_works_over_the_responses_api_which_is_the_default_of_the_sdk(stage: Stage) -> None:
    client = openai.AsyncOpenAI(base_url=stage.base_url, api_key="unused", timeout=20)
    responses = OpenAIResponsesModel(model=MODEL, openai_client=client)
    stage.plays(call("get_weather", {"id": "Oslo"}), say("It rains in Oslo."))
    agent_of_responses = Agent(name="Triage", model=responses, tools=[*office(120), WEATHER])
    assert run(agent_of_responses, "the weather in Oslo?").final_output == "It rains in Oslo."
    assert "get_weather" in stage.offered
