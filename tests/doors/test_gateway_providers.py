"""The gateway before models that speak another API: a client of chat completions sees chat completions.

The official `openai` package on one side, a strict server of each provider's own API on the other, real sockets between.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from serving import gateway

from toolcaddie.core.storage import RunQuery
from toolcaddie.core.usage import Usage
from toolcaddie.ports import Provider
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedUpstream, call, calls, refuse, say
from toolcaddie.testing.anthropic import AnthropicWire
from toolcaddie.testing.gemini import GeminiWire
from toolcaddie.testing.responses import ResponsesWire

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A provider of another API, and that API's server."""

    wire: Callable[[], Any]
    provider: Callable[[str, str], Provider]


OTHERS = {
    "anthropic": Other(wire=AnthropicWire, provider=Anthropic),
    "gemini": Other(wire=GeminiWire, provider=Gemini),
    "responses": Other(wire=ResponsesWire, provider=OpenAIResponses),
}
USAGE = Usage(input_tokens=900, output_tokens=70, cached_tokens=600, reasoning_tokens=40)


@pytest.fixture(params=sorted(OTHERS))
def other(request: pytest.FixtureRequest) -> Other:
    return OTHERS[request.param]


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Weather of a city: {name}.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
    for name in ("get_weather", "get_forecast")
]
SAID: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Łódź?"}]


def upstream_of(other: Other, script: Any, **options: Any) -> ScriptedUpstream:
    return ScriptedUpstream(script, wire=other.wire(), **options)


async def asked(client: openai.AsyncOpenAI, *, stream: bool, **ask: Any) -> dict[str, Any]:
    """The answer as a client reads it, whole or put together of its chunks."""
    ask = {"model": "gpt-test", **ask}
    if not stream:
        whole = await client.chat.completions.create(**ask)
        (choice,) = whole.choices
        called = [(one.id, one.function.name, one.function.arguments) for one in choice.message.tool_calls or ()]
        return {
            "text": choice.message.content,
            "calls": called,
            "finish": choice.finish_reason,
            "usage": whole.usage,
            "ids": {whole.id},
            "role": choice.message.role,
        }
    text, finish, usage, ids, role, pieces = "", None, None, set(), None, dict[int, list[str]]()
    options = {"include_usage": True}
    async for chunk in await client.chat.completions.create(**ask, stream=True, stream_options=options):
        ids.add(chunk.id)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            role = choice.delta.role or role
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for piece in choice.delta.tool_calls or ():
                known = pieces.setdefault(piece.index, [piece.id or "", "", ""])
                known[1] += piece.function.name or ""
                known[2] += piece.function.arguments or ""
    called = [tuple(pieces[index]) for index in sorted(pieces)]
    return {
        "text": text or (None if called else ""),
        "calls": called,
        "finish": finish,
        "usage": usage,
        "ids": ids,
        "role": role,
    }


both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@both
async def test_plain_talk_has_text_role_end_and_usage(other: Other, stream: bool, tmp_path: Path) -> None:
    script = [replace(say("Rain, Łódź is wet."), usage=USAGE)]
    async with (
        upstream_of(other, script) as upstream,
        gateway(tmp_path, other.provider(upstream.base_url, "test-key")) as served,
    ):
        answer = await asked(served.client, stream=stream, messages=SAID)
    assert (answer["text"], answer["finish"], answer["role"], answer["calls"]) == (
        "Rain, Łódź is wet.",
        "stop",
        "assistant",
        [],
    )
    assert len(answer["ids"]) == 1
    usage = answer["usage"]
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (900, 70, 970)
    assert usage.prompt_tokens_details.cached_tokens == 600
    assert usage.completion_tokens_details.reasoning_tokens == 40
    assert upstream.refusals == []


@both
async def test_calls_come_back_with_ids_and_whole_arguments_and_their_results_go_on(
    other: Other, stream: bool, tmp_path: Path
) -> None:
    wanted = calls(("get_weather", {"city": "Łódź"}), ("get_forecast", {"city": "Łódź"}), text="Let me see.")
    script = [replace(wanted, reasoning="Two tools fit."), say("Wet, and it stays so.")]
    async with (
        upstream_of(other, script) as upstream,
        gateway(tmp_path, other.provider(upstream.base_url, "test-key")) as served,
    ):
        first = await asked(served.client, stream=stream, messages=SAID, tools=TOOLS)
        assert first["finish"] == "tool_calls"
        assert first["text"] == "Let me see."
        assert [(name, msgspec.json.decode(arguments)) for _, name, arguments in first["calls"]] == [
            ("get_weather", {"city": "Łódź"}),
            ("get_forecast", {"city": "Łódź"}),
        ]
        ids = [call_id for call_id, _, _ in first["calls"]]
        assert len(set(ids)) == 2
        assert all(ids)
        made = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in first["calls"]
        ]
        results = [{"role": "tool", "tool_call_id": call_id, "content": "wet"} for call_id in ids]
        after = [*SAID, {"role": "assistant", "content": "Let me see.", "tool_calls": made}, *results]
        second = await asked(served.client, stream=stream, messages=after, tools=TOOLS)
    assert (second["text"], second["finish"]) == ("Wet, and it stays so.", "stop")
    assert upstream.refusals == []
    assert "Two tools fit." not in str(first) + str(second)


@both
async def test_tools_of_the_catalog_run_inside_and_all_their_rounds_are_in_the_usage(
    other: Other, stream: bool, tmp_path: Path
) -> None:
    ran: list[str] = []

    @tool(category="weather")
    def look_outside(city: str) -> str:
        """The weather of a city, seen by a person."""
        ran.append(city)
        return "wet"

    script = [
        replace(call("look_outside", {"city": "Łódź"}), usage=USAGE, reasoning="Somebody has to look."),
        replace(say("Wet."), usage=USAGE),
    ]
    async with (
        upstream_of(other, script) as upstream,
        gateway(
            tmp_path,
            other.provider(upstream.base_url, "test-key"),
            sources=[FunctionSource("weather", [look_outside])],
        ) as served,
    ):
        answer = await asked(served.client, stream=stream, messages=SAID)
    assert (answer["text"], answer["calls"], answer["finish"], ran) == ("Wet.", [], "stop", ["Łódź"])
    assert (answer["usage"].prompt_tokens, answer["usage"].prompt_tokens_details.cached_tokens) == (1_800, 1_200)
    assert len(answer["ids"]) == 1
    assert upstream.refusals == []


@both
@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_an_answer_that_was_cut_short_says_why(other: Other, stream: bool, finish: str, tmp_path: Path) -> None:
    async with (
        upstream_of(other, [say("Ra", finish_reason=finish)]) as upstream,
        gateway(tmp_path, other.provider(upstream.base_url, "test-key")) as served,
    ):
        answer = await asked(served.client, stream=stream, messages=SAID)
    assert (answer["text"], answer["finish"]) == ("Ra", finish)


@both
async def test_common_parameters_of_chat_completions_reach_the_model(
    other: Other, stream: bool, tmp_path: Path
) -> None:
    async with (
        upstream_of(other, [call("get_weather", {"city": "Łódź"})]) as upstream,
        gateway(tmp_path, other.provider(upstream.base_url, "test-key")) as served,
    ):
        answer = await asked(
            served.client,
            stream=stream,
            messages=SAID,
            tools=TOOLS,
            tool_choice={"type": "function", "function": {"name": "get_weather"}},
            max_completion_tokens=1_234,
            temperature=0.5,
            parallel_tool_calls=False,
            user="ann",
        )
    assert [name for _, name, _ in answer["calls"]] == ["get_weather"]
    assert "1234" in str(upstream.bodies[0])
    assert upstream.refusals == []


async def test_the_models_are_listed_as_openai_lists_them(other: Other, tmp_path: Path) -> None:
    async with (
        upstream_of(other, [], models=["model-a", "model-b"]) as upstream,
        gateway(tmp_path, other.provider(upstream.base_url, "test-key")) as served,
    ):
        listed = [model async for model in await served.client.models.list()]
    assert [model.id for model in listed] == ["model-a", "model-b"]
    assert {model.object for model in listed} == {"model"}


@both
async def test_errors_have_openais_shape_and_status(other: Other, stream: bool, tmp_path: Path) -> None:
    script = [refuse(429, "slow down", headers={"retry-after": "7"}), refuse(503, "overloaded")]
    async with (
        upstream_of(other, script) as upstream,
        gateway(tmp_path, other.provider(upstream.base_url, "test-key")) as served,
    ):
        with pytest.raises(openai.RateLimitError) as limited:
            await asked(served.client, stream=stream, messages=SAID)
        assert limited.value.response.headers["retry-after"] == "7"
        with pytest.raises(openai.InternalServerError) as down:
            await asked(served.client, stream=stream, messages=SAID)
    for raised in (limited.value, down.value):
        assert isinstance(raised.body, dict)
        assert isinstance(raised.body["message"], str)
        assert {"message", "type", "param", "code"} <= raised.body.keys()


@both
async def test_a_key_of_ours_that_is_refused_is_our_matter(other: Other, stream: bool, tmp_path: Path) -> None:
    async with (
        upstream_of(other, []) as upstream,
        gateway(tmp_path, other.provider(upstream.base_url, "sk-wrong-0123456789")) as served,
    ):
        with pytest.raises(openai.InternalServerError, match="refused the gateway's key") as raised:
            await asked(served.client, stream=stream, messages=SAID)
    assert raised.value.status_code == 502
    assert "sk-wrong" not in str(raised.value.body)


@both
async def test_what_the_other_api_has_no_word_for_is_a_bad_request_that_names_it(
    other: Other, stream: bool, tmp_path: Path
) -> None:
    picture = {"type": "image_url", "image_url": {"url": 7}}
    async with (
        upstream_of(other, []) as upstream,
        gateway(tmp_path, other.provider(upstream.base_url, "test-key")) as served,
    ):
        with pytest.raises(openai.BadRequestError) as raised:
            await asked(served.client, stream=stream, messages=[{"role": "user", "content": [picture]}])
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["message"]


async def test_a_fallback_of_another_api_answers_in_the_same_words(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([refuse(503, "overloaded")]) as first,
        ScriptedUpstream([call("get_weather", {"city": "Łódź"})], wire=AnthropicWire()) as second,
        gateway(
            tmp_path, first.base_url, fallbacks=[Anthropic(second.base_url, "test-key", default_model="c")]
        ) as served,
    ):
        answer = await asked(served.client, stream=True, messages=SAID, tools=TOOLS)
        events = await served.database.events.events((await served.database.events.runs(RunQuery(limit=1)))[0].run_id)
    assert [name for _, name, _ in answer["calls"]] == ["get_weather"]
    (told,) = [event.data for event in events if event.kind == "model_answered"]
    assert (told["provider"], [one["outcome"] for one in told["attempts"]]) == ("anthropic", ["failed", "answered"])


@both
async def test_where_there_are_fallbacks_they_answer_requests_without_tools_too(stream: bool, tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([refuse(503, "overloaded")]) as first,
        ScriptedUpstream([say("Wet.")], wire=AnthropicWire()) as second,
        gateway(
            tmp_path,
            first.base_url,
            forwards=False,
            fallbacks=[Anthropic(second.base_url, "test-key", default_model="c")],
        ) as served,
    ):
        answer = await asked(served.client, stream=stream, messages=SAID)
    assert (answer["text"], answer["finish"]) == ("Wet.", "stop")
