"""The AI SDK (`ai_sdk/program.mjs`), as it comes, against the gateway."""

from __future__ import annotations

import pytest

from tests.clients.programs import AI_SDK
from tests.clients.server import Stage, names_of
from toolcaddie.testing import call, calls, endless, refuse, say

FOUND = {"city": "Oslo", "degrees": 8}


def test_plain_chat_and_its_usage(stage: Stage) -> None:
    stage.plays(say("Rain."))
    assert AI_SDK("plain", stage.base_url) == {"text": "Rain.", "tokens": 110}


def test_a_stream_and_its_usage(stage: Stage) -> None:
    stage.plays(say("It rains in Oslo."))
    assert AI_SDK("stream", stage.base_url) == {"text": "It rains in Oslo.", "tokens": 110}


@pytest.mark.parametrize("scenario", ["agent", "agent_of_openai", "agent_of_responses"])
def test_a_tool_call_round_trip_among_many_tools(stage: Stage, scenario: str) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}), say("8 degrees."))
    seen = AI_SDK(scenario, stage.base_url)
    assert seen == {"text": "8 degrees.", "calls": [["get_weather", {"city": "Oslo"}]], "tokens": 220}
    assert len(stage.offered) < 60


def test_parallel_calls_are_streamed_and_answered(stage: Stage) -> None:
    stage.plays(calls(("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})), say("Both."))
    seen = AI_SDK("streamed_agent", stage.base_url)
    assert seen == {"text": "Both.", "calls": [["get_weather", {"city": "Oslo"}], ["get_weather", {"city": "Rome"}]]}
    assert [message["role"] for message in stage.bodies[1]["messages"][-2:]] == ["tool", "tool"]


def test_several_turns_keep_their_tools_in_place(stage: Stage) -> None:
    stage.plays(say("One."), say("Two."), say("Three."))
    assert AI_SDK("turns", stage.base_url) == {"messages": 6}
    first, last = names_of(stage.bodies[0]), names_of(stage.bodies[2])
    assert last[: len(first)] == first


def test_an_object_by_the_models_own_schema(stage: Stage) -> None:
    stage.plays(say('{"city": "Oslo", "degrees": 8}'))
    assert AI_SDK("object", stage.base_url) == {"answer": FOUND}
    assert stage.bodies[0]["response_format"]["type"] == "json_schema"


def test_an_output_behind_tool_calls(stage: Stage) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}), say('{"city": "Oslo", "degrees": 8}'))
    assert AI_SDK("output", stage.base_url) == {"answer": FOUND}


def test_a_tool_that_must_be_called_is_sent(stage: Stage) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}))
    assert AI_SDK("required", stage.base_url) == {"calls": ["get_weather"]}


def test_a_final_tool_that_the_client_pins_is_sent(stage: Stage) -> None:
    stage.plays(call("give_answer", FOUND))
    assert AI_SDK("final_tool", stage.base_url) == {"answer": FOUND}
    assert "give_answer" in stage.offered


@pytest.mark.parametrize("status", [429, 500])
def test_an_upstream_that_fails_is_tried_again_by_the_client(stage: Stage, status: int) -> None:
    stage.plays(refuse(status, "not now", headers={"retry-after": "0"}), say("Rain."))
    assert AI_SDK("retried", stage.base_url) == {"text": "Rain."}


def test_an_error_keeps_its_status_and_words(stage: Stage) -> None:
    stage.plays(refuse(400, "the prompt is refused"))
    assert AI_SDK("refused", stage.base_url) == {"error": True, "status": 400, "told": "the prompt is refused"}


def test_a_stream_that_is_left_ends_the_request_to_the_upstream(stage: Stage) -> None:
    stage.plays(endless())
    AI_SDK("left", stage.base_url)
    stage.wait_for("client left")
