"""Answers of a model that are too large to use: the error names the bound, streamed or not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolcaddie import Runtime
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedUpstream, call, calls, garbage, say

pytestmark = pytest.mark.anyio

both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@tool(read_only=True)
def look_up(name: str = "") -> str:
    """Look something up."""
    return f"{name} is there"


async def answered(script: Any, *, stream: bool, bounds: Bounds) -> str:
    async with ScriptedUpstream(script) as upstream:
        provider = OpenAIChat(upstream.base_url, "test-key", bounds=bounds)
        async with Runtime(provider=provider, sources=[look_up], model="m", bounds=bounds) as runtime:
            if not stream:
                return (await runtime.run("look it up")).text
            async for event in runtime.stream("look it up"):
                last = event
            return str(last.result.text)


@both_ways
async def test_an_answer_of_too_many_calls_ends_the_run(stream: bool) -> None:
    script = [calls(*[("look_up", {})] * 11)]
    with pytest.raises(ProviderProtocolError, match=r"holds 11 tool calls.*\(setting bounds.answer_calls\)"):
        await answered(script, stream=stream, bounds=Bounds(answer_calls=10))


@both_ways
async def test_a_call_of_an_impossible_name_ends_the_run(stream: bool) -> None:
    with pytest.raises(ProviderProtocolError, match=r"name has 300 characters.*\(setting bounds.name\)"):
        await answered([call("n" * 300)], stream=stream, bounds=Bounds())


@both_ways
async def test_arguments_that_are_too_long_are_a_result_that_says_so(stream: bool) -> None:
    heard = []

    def second(body: Any) -> Any:
        heard.append(body["messages"][-1]["content"])
        return say("I see.")

    script = [call("look_up", {"name": "a" * 100}), second]
    assert await answered(script, stream=stream, bounds=Bounds(arguments=100)) == "I see."
    assert "have 111 characters; at most 100 are accepted (setting bounds.arguments)" in heard[0]


async def test_an_answer_of_too_many_values_is_refused_before_it_is_decoded() -> None:
    body = msgspec.json.encode({"choices": [], "x": [[]] * 400_000})
    with pytest.raises(ProviderProtocolError, match=r"too many JSON values.*\(setting bounds.values\)"):
        await answered([garbage(body)], stream=False, bounds=Bounds())


async def test_an_answer_that_is_too_large_is_refused_with_the_setting() -> None:
    with pytest.raises(ProviderProtocolError, match=r"larger than the 50,000 bytes.*\(setting bounds.answer\)"):
        await answered([garbage(b" " * 50_001)], stream=False, bounds=Bounds(answer=50_000))


async def test_an_event_that_is_too_large_is_refused_with_the_setting() -> None:
    with pytest.raises(ProviderProtocolError, match=r"event of more than 20,000 bytes \(setting bounds.event\)"):
        await answered(
            [garbage(b"data: " + b"x" * 900_000, content_type="text/event-stream")],
            stream=True,
            bounds=Bounds(event=20_000),
        )


async def test_a_long_answer_of_the_size_that_is_read_beside_the_loop_is_an_answer() -> None:
    text = "a word, and [another] " * 50_000
    for stream in (False, True):
        assert await answered([say(text)], stream=stream, bounds=Bounds()) == text
