"""litellm as a client library (`litellm_program.py`), as it comes, against the gateway."""

from __future__ import annotations

import pytest

from tests.clients.programs import LITELLM
from tests.clients.server import Stage, names_of
from toolcaddie.testing import call, calls, endless, refuse, say


def test_plain_chat_and_its_usage(stage: Stage) -> None:
    stage.plays(say("Rain."))
    assert LITELLM("plain", stage.base_url) == {"text": "Rain.", "tokens": 110}


def test_a_stream_and_its_usage(stage: Stage) -> None:
    stage.plays(say("It rains in Oslo."))
    assert LITELLM("stream", stage.base_url) == {"text": "It rains in Oslo.", "tokens": 110}


def test_a_tool_call_round_trip_among_many_tools(stage: Stage) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}), say("8 degrees."))
    seen = LITELLM("tool", stage.base_url)
    assert seen == {"calls": [["get_weather", {"city": "Oslo"}]], "text": "8 degrees."}
    assert "get_weather" in stage.offered


def test_parallel_calls_are_streamed_apart(stage: Stage) -> None:
    stage.plays(calls(("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})))
    seen = LITELLM("streamed_calls", stage.base_url)
    assert seen == {"calls": [["get_weather", {"city": "Oslo"}], ["get_weather", {"city": "Rome"}]]}


def test_several_turns_keep_their_tools_in_place(stage: Stage) -> None:
    stage.plays(say("One."), say("Two."), say("Three."))
    assert LITELLM("turns", stage.base_url) == {"text": "Three."}
    first, last = names_of(stage.bodies[0]), names_of(stage.bodies[2])
    assert last[: len(first)] == first


def test_structured_output(stage: Stage) -> None:
    stage.plays(say('{"city": "Oslo", "degrees": 8}'))
    assert LITELLM("structured", stage.base_url) == {"answer": {"city": "Oslo", "degrees": 8}}


@pytest.mark.parametrize("status", [429, 500])
def test_an_upstream_that_fails_is_tried_again_by_the_client(stage: Stage, status: int) -> None:
    stage.plays(refuse(status, "not now", headers={"retry-after": "0"}), say("Rain."))
    assert LITELLM("retried", stage.base_url) == {"text": "Rain."}


def test_an_error_keeps_its_class_and_words(stage: Stage) -> None:
    stage.plays(refuse(400, "the prompt is refused"))
    seen = LITELLM("refused", stage.base_url)
    assert seen["error"] == "BadRequestError"
    assert "the prompt is refused" in seen["told"]


def test_a_stream_that_is_left_ends_the_request_to_the_upstream(stage: Stage) -> None:
    stage.plays(endless())
    LITELLM("left", stage.base_url)
    stage.wait_for("client left")


def test_a_tool_that_must_be_called_is_sent(stage: Stage) -> None:
    stage.plays(call("get_weather", {"city": "Oslo"}))
    assert LITELLM("weather_choice", stage.base_url) == {"calls": ["get_weather"]}
