"""The package `openai`, as it comes, against the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.clients.server import MODEL, Stage, definition, many_tools, names_of
from toolcaddie.core.usage import Usage
from toolcaddie.testing import Reply, call, calls, endless, refuse, say

WEATHER = definition("get_weather", "The weather of a city.", {"city": {"type": "string"}})
ASK = [{"role": "user", "content": "what is the weather in Oslo?"}]


class Weather(BaseModel):
    city: str
    degrees: int


@pytest.fixture
def client(stage: Stage) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=stage.base_url, api_key="unused", timeout=20) as made:
        yield made


def test_plain_chat_and_its_usage(stage: Stage, client: openai.OpenAI) -> None:
    stage.plays(Reply(text="Rain.", usage=Usage(input_tokens=20, output_tokens=3, cached_tokens=16)))
    answer = client.chat.completions.create(model=MODEL, messages=ASK)
    assert answer.choices[0].message.content == "Rain."
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (20, 3)
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 16


@pytest.mark.parametrize("tools", [[], many_tools(120)], ids=["without tools", "with tools"])
def test_a_stream_and_its_usage_where_that_was_asked_for(stage: Stage, client: openai.OpenAI, tools: list[Any]) -> None:
    stage.plays(say("It rains in Oslo."))
    more = {"tools": tools} if tools else {}
    stream = client.chat.completions.create(
        model=MODEL, messages=ASK, stream=True, stream_options={"include_usage": True}, **more
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "It rains in Oslo."
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 110
    assert len({chunk.id for chunk in chunks}) == 1


@pytest.mark.parametrize("others", [0, 299])
def test_a_tool_call_round_trip_with_the_clients_own_tools(stage: Stage, client: openai.OpenAI, others: int) -> None:
    tools = [*many_tools(others), WEATHER]
    stage.plays(call("get_weather", {"city": "Oslo"}), say("It rains in Oslo."))
    first = client.chat.completions.create(model=MODEL, messages=ASK, tools=tools).choices[0]
    assert first.finish_reason == "tool_calls"
    (tool_call,) = first.message.tool_calls or ()
    assert tool_call.function.name == "get_weather"
    assert tool_call.function.arguments == '{"city":"Oslo"}'
    result = {"role": "tool", "tool_call_id": tool_call.id, "content": "rain, 8 degrees"}
    second = client.chat.completions.create(model=MODEL, messages=[*ASK, first.message, result], tools=tools)
    assert second.choices[0].message.content == "It rains in Oslo."
    assert stage.bodies[-1]["messages"][-1] == result
    assert "get_weather" in stage.offered
    assert len(stage.offered) <= 128


def test_the_streaming_helper_collects_parallel_calls(stage: Stage, client: openai.OpenAI) -> None:
    stage.plays(calls(("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})))
    with client.chat.completions.stream(
        model=MODEL, messages=ASK, tools=[WEATHER, *many_tools(100)], parallel_tool_calls=True
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    assert [each.function.arguments for each in message.tool_calls or ()] == ['{"city":"Oslo"}', '{"city":"Rome"}']
    assert stage.bodies[0]["parallel_tool_calls"] is True


def test_several_turns_keep_their_tools_in_place(stage: Stage, client: openai.OpenAI) -> None:
    tools = [*many_tools(200), WEATHER]
    messages: list[Any] = []
    arrays = []
    for text in ("create an invoice", "what is the weather in Oslo?", "archive the ticket"):
        stage.plays(say("Done."))
        messages.append({"role": "user", "content": text})
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
        messages.append(answer.choices[0].message)
        arrays.append(names_of(stage.bodies[0]))
    for before, after in pairwise(arrays):
        assert after[: len(before)] == before


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("tools", [[], [WEATHER]], ids=["without tools", "with tools"])
def test_the_client_tries_again_where_the_upstream_fails(
    stage: Stage, client: openai.OpenAI, status: int, tools: list[Any]
) -> None:
    stage.plays(refuse(status, "not now", headers={"retry-after": "0"}), say("Rain."))
    more = {"tools": tools} if tools else {}
    answer = client.chat.completions.create(model=MODEL, messages=ASK, **more)
    assert answer.choices[0].message.content == "Rain."
    assert len(stage.bodies) == 2


def test_an_error_the_client_does_not_repeat_keeps_its_class_and_words(stage: Stage, client: openai.OpenAI) -> None:
    stage.plays(refuse(400, "the context is too long", code="context_length_exceeded"))
    with pytest.raises(openai.BadRequestError, match="the context is too long") as caught:
        client.chat.completions.create(model=MODEL, messages=ASK, tools=[WEATHER])
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("tools", [None, [WEATHER, *many_tools(100)]], ids=["without tools", "with tools"])
def test_parse_gives_an_object_of_the_response_format(
    stage: Stage, client: openai.OpenAI, tools: list[Any] | None
) -> None:
    stage.plays(say('{"city": "Oslo", "degrees": 8}'))
    strict = [{**tool, "function": {**tool["function"], "strict": True}} for tool in tools or ()]
    answer = client.chat.completions.parse(
        model=MODEL, messages=ASK, response_format=Weather, **({"tools": strict} if strict else {})
    )
    assert answer.choices[0].message.parsed == Weather(city="Oslo", degrees=8)
    assert stage.bodies[0]["response_format"]["json_schema"]["name"] == "Weather"


def test_parse_reads_the_arguments_of_a_pydantic_tool(stage: Stage, client: openai.OpenAI) -> None:
    stage.plays(call("Weather", {"city": "Oslo", "degrees": 8}))
    answer = client.chat.completions.parse(
        model=MODEL, messages=ASK, tools=[openai.pydantic_function_tool(Weather)], tool_choice="required"
    )
    (tool_call,) = answer.choices[0].message.tool_calls or ()
    assert tool_call.function.parsed_arguments == Weather(city="Oslo", degrees=8)
    assert stage.bodies[0]["tool_choice"] == "required"


def test_a_tool_that_must_be_called_is_sent_among_300(stage: Stage, client: openai.OpenAI) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}))
    choice = {"type": "function", "function": {"name": "get_weather"}}
    client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "delete the invoice"}],
        tools=[*many_tools(299), WEATHER],
        tool_choice=choice,
    )
    assert "get_weather" in stage.offered
    assert stage.bodies[0]["tool_choice"] == choice


def test_parts_of_images_reach_the_model_as_they_are(stage: Stage, client: openai.OpenAI) -> None:
    stage.plays(say("A cat."))
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
    ]
    client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}], tools=many_tools(60))
    assert stage.bodies[0]["messages"][-1]["content"] == parts


def test_a_stream_that_is_closed_ends_the_request_to_the_upstream(stage: Stage, client: openai.OpenAI) -> None:
    stage.plays(endless())
    stream = client.chat.completions.create(model=MODEL, messages=ASK, tools=[WEATHER], stream=True)
    next(iter(stream))
    stream.close()
    stage.wait_for("client left")


def test_the_models_are_the_upstreams(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]


def test_the_gyms_tools_run_inside_for_a_client_that_knows_none(gym: str) -> None:
    with openai.OpenAI(base_url=gym, api_key="unused", timeout=20) as client:
        answer = client.chat.completions.create(
            model="practice", messages=[{"role": "user", "content": "freeze John's membership"}]
        )
    assert "freeze_membership" in (answer.choices[0].message.content or "")
