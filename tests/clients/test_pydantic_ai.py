"""Pydantic AI, as it comes, against the gateway: an agent with `output_type` ends with the call of an output tool."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, Tool, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.server import MODEL, Stage, many_names
from toolcaddie.testing import call, calls, endless, refuse, say


class Report(BaseModel):
    """The answer to a question."""

    city: str
    degrees: int


class Refusal(BaseModel):
    reason: str


FOUND = {"city": "Oslo", "degrees": 8}


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 8 degrees"


def office(count: int) -> list[Tool[None]]:
    """So many tools of an office."""

    def made(name: str) -> Tool[None]:
        def work(number: str) -> str:
            return f"{name} {number}"

        return Tool(work, name=name, description=f"{name.replace('_', ' ').capitalize()} of the office.")

    return [made(name) for name in many_names(count)]


def agent(stage: Stage, **options: Any) -> Agent[None, Any]:
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=stage.base_url, api_key="unused"))
    return Agent(model, **options)


def test_plain_chat_and_its_usage(stage: Stage) -> None:
    stage.plays(say("Rain."))
    result = agent(stage).run_sync("what is the weather in Oslo?")
    assert result.output == "Rain."
    assert (result.usage.input_tokens, result.usage.output_tokens) == (100, 10)


@pytest.mark.parametrize("others", [0, 250])
def test_a_tool_is_called_and_its_result_answered(stage: Stage, others: int) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}), say("8 degrees."))
    result = agent(stage, tools=[get_weather, *office(others)]).run_sync("what is the weather in Oslo?")
    assert result.output == "8 degrees."
    assert stage.bodies[1]["messages"][-1]["content"] == "Oslo: 8 degrees"


def test_parallel_calls_are_all_answered(stage: Stage) -> None:
    stage.plays(calls(("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})), say("Both."))
    assert agent(stage, tools=[get_weather, *office(60)]).run_sync("Oslo and Rome?").output == "Both."
    assert [m["content"] for m in stage.bodies[1]["messages"][-2:]] == ["Oslo: 8 degrees", "Rome: 8 degrees"]


@pytest.mark.parametrize("others", [0, 60, 250])
def test_the_output_tool_is_offered_in_every_request_whatever_else_there_is(stage: Stage, others: int) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}), call("final_result", FOUND))
    reporter = agent(stage, tools=[get_weather, *office(others)], output_type=Report)
    result = reporter.run_sync("create the invoices, and what is the weather in Oslo?")
    assert result.output == Report(city="Oslo", degrees=8)
    for body in stage.bodies:
        assert "final_result" in [tool["function"]["name"] for tool in body["tools"]]
        assert body["tool_choice"] == "required"


def test_each_output_tool_of_a_union_is_offered(stage: Stage) -> None:
    stage.plays(call("final_result_Refusal", {"reason": "no such city"}))
    result = agent(stage, tools=office(250), output_type=[Report, Refusal]).run_sync("archive the ticket")
    assert result.output == Refusal(reason="no such city")
    assert {"final_result_Report", "final_result_Refusal"} <= set(stage.offered)


def test_an_output_tool_with_a_name_of_its_own_is_offered(stage: Stage) -> None:
    stage.plays(call("file_report", FOUND))
    result = agent(stage, tools=office(250), output_type=ToolOutput(Report, name="file_report")).run_sync("archive it")
    assert result.output == Report(city="Oslo", degrees=8)
    assert "file_report" in stage.offered


def test_an_answer_in_words_is_asked_for_again_as_an_output(stage: Stage) -> None:
    """The client's own retry prompt goes through."""
    stage.plays(say("8 degrees."), call("final_result", FOUND))
    result = agent(stage, tools=office(250), output_type=Report).run_sync("the weather in Oslo?")
    assert result.output == Report(city="Oslo", degrees=8)
    assert len(stage.bodies) == 2


def test_output_by_the_models_own_schema(stage: Stage) -> None:
    stage.plays(say('{"city": "Oslo", "degrees": 8}'))
    result = agent(stage, tools=office(60), output_type=NativeOutput(Report)).run_sync("the weather in Oslo?")
    assert result.output == Report(city="Oslo", degrees=8)
    assert stage.bodies[0]["response_format"]["type"] == "json_schema"


def test_a_tool_that_the_instructions_name_is_offered(stage: Stage) -> None:
    stage.plays(say("Done."))
    instructed = agent(stage, tools=[*office(250), get_weather], instructions="Before anything else call get_weather.")
    instructed.run_sync("merge the suppliers")
    assert "get_weather" in stage.offered


def test_several_turns(stage: Stage) -> None:
    stage.plays(say("Hello."), call("final_result", FOUND))
    talker = agent(stage, tools=office(120), output_type=[Report, str])
    first = talker.run_sync("hello")
    second = talker.run_sync("and the weather?", message_history=first.all_messages())
    assert (first.output, second.output) == ("Hello.", Report(city="Oslo", degrees=8))


async def _streamed(talker: Agent[None, Any]) -> list[Any]:
    async with talker.run_stream("what is the weather in Oslo?") as result:
        return [part async for part in result.stream_output(debounce_by=None)]


def test_an_output_is_streamed(stage: Stage) -> None:
    stage.plays(call("final_result", FOUND))
    parts = asyncio.run(_streamed(agent(stage, tools=office(120), output_type=Report)))
    assert parts[-1] == Report(city="Oslo", degrees=8)


def test_words_are_streamed(stage: Stage) -> None:
    stage.plays(say("It rains in Oslo."))
    assert asyncio.run(_streamed(agent(stage, tools=office(120))))[-1] == "It rains in Oslo."


def test_a_stream_that_is_left_ends_the_request_to_the_upstream(stage: Stage) -> None:
    async def leave() -> None:
        async with agent(stage, tools=office(30)).run_stream("go on") as result:
            async for _ in result.stream_text(delta=True):
                break
            await result.cancel()

    stage.plays(endless())
    asyncio.run(leave())
    stage.wait_for("client left")


def test_an_upstream_that_fails_is_tried_again_by_the_client(stage: Stage) -> None:
    stage.plays(refuse(500, "not now"), say("Rain."))
    assert agent(stage, tools=office(30)).run_sync("the weather?").output == "Rain."


def test_an_error_arrives_with_its_status_and_words(stage: Stage) -> None:
    stage.plays(refuse(400, "the context is too long", code="context_length_exceeded"))
    with pytest.raises(ModelHTTPError, match="the context is too long") as caught:
        agent(stage, tools=office(30)).run_sync("the weather?")
    assert caught.value.status_code == 400
