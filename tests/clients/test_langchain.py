"""LangChain with `langchain-openai`, as they come, against the gateway."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from tests.clients.server import MODEL, Stage, many_names
from toolcaddie.testing import call, calls, endless, refuse, say


class Report(BaseModel):
    """The answer to a question."""

    city: str
    degrees: int


FOUND = {"city": "Oslo", "degrees": 8}
ASK = "what is the weather in Oslo?"


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 8 degrees"


def office(count: int) -> list[BaseTool]:
    def made(name: str) -> BaseTool:
        def work(number: str) -> str:
            return f"{name} {number}"

        text = f"{name.replace('_', ' ').capitalize()} of the office."
        return StructuredTool.from_function(work, name=name, description=text)

    return [made(name) for name in many_names(count)]


@pytest.fixture
def model(stage: Stage) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=stage.base_url, api_key="unused", timeout=20, stream_usage=True)


def test_plain_chat_and_its_usage(stage: Stage, model: ChatOpenAI) -> None:
    stage.plays(say("Rain."))
    answer = model.invoke(ASK)
    assert answer.content == "Rain."
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["total_tokens"] == 110


def test_a_stream_with_its_usage(stage: Stage, model: ChatOpenAI) -> None:
    stage.plays(say("It rains in Oslo."))
    chunks = list(model.bind_tools(office(120)).stream(ASK))
    assert "".join(str(chunk.content) for chunk in chunks) == "It rains in Oslo."
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["total_tokens"] == 110


def test_parallel_calls_are_streamed_apart(stage: Stage, model: ChatOpenAI) -> None:
    stage.plays(calls(("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})))
    whole: Any = None
    for chunk in model.bind_tools([*office(120), get_weather]).stream(ASK):
        whole = chunk if whole is None else whole + chunk
    assert [each["args"] for each in whole.tool_calls] == [{"city": "Oslo"}, {"city": "Rome"}]


@pytest.mark.parametrize("others", [0, 250])
def test_an_agent_calls_its_tool_and_answers(stage: Stage, model: ChatOpenAI, others: int) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}), say("8 degrees."))
    agent = create_agent(model, [*office(others), get_weather])
    result = agent.invoke({"messages": [{"role": "user", "content": ASK}]})
    assert result["messages"][-1].content == "8 degrees."
    assert stage.bodies[1]["messages"][-1]["content"] == "Oslo: 8 degrees"


def test_structured_output_by_function_calling(stage: Stage, model: ChatOpenAI) -> None:
    stage.plays(call("Report", FOUND))
    assert model.with_structured_output(Report, method="function_calling").invoke(ASK) == Report(city="Oslo", degrees=8)
    assert stage.bodies[0]["tool_choice"] == {"type": "function", "function": {"name": "Report"}}


def test_structured_output_by_the_models_own_schema(stage: Stage, model: ChatOpenAI) -> None:
    stage.plays(say('{"city": "Oslo", "degrees": 8}'))
    assert model.with_structured_output(Report, method="json_schema").invoke(ASK) == Report(city="Oslo", degrees=8)


def test_an_agent_that_must_end_with_a_tool_of_its_response_format(stage: Stage, model: ChatOpenAI) -> None:
    """The tool is named like the class of the answer, and the model must call one."""
    stage.plays(call("Report", FOUND))
    agent = create_agent(model, office(250), response_format=ToolStrategy(Report))
    result = agent.invoke({"messages": [{"role": "user", "content": "archive the ticket"}]})
    assert result["structured_response"] == Report(city="Oslo", degrees=8)
    assert "Report" in stage.offered
    assert stage.bodies[0]["tool_choice"] == "required"


def test_several_turns(stage: Stage, model: ChatOpenAI) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}), say("8 degrees."), say("Celsius."))
    agent = create_agent(model, [*office(120), get_weather])
    first = agent.invoke({"messages": [{"role": "user", "content": ASK}]})
    second = agent.invoke({"messages": [*first["messages"], HumanMessage("in which unit?")]})
    assert second["messages"][-1].content == "Celsius."


def test_a_stream_that_is_left_ends_the_request_to_the_upstream(stage: Stage, model: ChatOpenAI) -> None:
    stage.plays(endless())
    stream = model.bind_tools(office(30)).stream(ASK)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    stage.wait_for("client left")


@pytest.mark.parametrize("status", [429, 500])
def test_an_upstream_that_fails_is_tried_again_by_the_client(stage: Stage, model: ChatOpenAI, status: int) -> None:
    stage.plays(refuse(status, "not now", headers={"retry-after": "0"}), say("Rain."))
    assert model.bind_tools(office(30)).invoke(ASK).content == "Rain."


def test_an_error_keeps_its_class_and_words(stage: Stage, model: ChatOpenAI) -> None:
    stage.plays(refuse(400, "the prompt is refused"))
    with pytest.raises(openai.BadRequestError, match="the prompt is refused"):
        model.bind_tools(office(30)).invoke(ASK)


def test_an_agent_works_over_the_responses_api_too(stage: Stage) -> None:
    model = ChatOpenAI(model=MODEL, base_url=stage.base_url, api_key="unused", use_responses_api=True, timeout=20)
    stage.plays(call("get_weather", {"city": "Oslo"}), say("It rains in Oslo."))
    agent = create_agent(model, [*office(120), get_weather])
    answer = agent.invoke({"messages": [HumanMessage(ASK)]})["messages"][-1]
    assert answer.text == "It rains in Oslo."
    assert "get_weather" in stage.offered
