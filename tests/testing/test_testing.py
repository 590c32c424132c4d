"""The scripted provider and the scripted upstream keep their promises to the tests that stand on them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import openai
import pytest
from aiohttp import ClientError, ClientSession

from toolcaddie import testing
from toolcaddie.core.errors import ProviderUnavailableError
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.testing import (
    ScriptedProvider,
    ScriptedUpstream,
    ScriptError,
    call,
    calls,
    cut,
    empty_choices,
    endless,
    garbage,
    noisy,
    paced,
    refusal_of,
    refuse,
    say,
)

pytestmark = pytest.mark.anyio

HELLO = ModelRequest(model="m", messages=(Message(role="user", content="hello"),))


def tool(name: str = "freeze", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}, **more}}


def asked(**fields: Any) -> dict[str, Any]:
    return {"model": "gpt-test", "messages": [{"role": "user", "content": "hello"}], **fields}


# in process


async def test_a_scripted_provider_answers_in_order_and_keeps_what_it_was_asked() -> None:
    provider = ScriptedProvider([call("freeze", {"id": 7}), say("done")])
    first, second = await provider.complete(HELLO), await provider.complete(HELLO)
    assert [(each.name, each.arguments) for each in first.message.tool_calls] == [("freeze", '{"id":7}')]
    assert (first.finish_reason, second.finish_reason, second.message.content) == ("tool_calls", "stop", "done")
    assert provider.requests == [HELLO, HELLO]


async def test_calls_without_an_id_get_different_ones() -> None:
    provider = ScriptedProvider(lambda _: calls(("a", None), ("b", None)))
    ids = [each.id for _ in range(2) for each in (await provider.complete(HELLO)).message.tool_calls]
    assert len(set(ids)) == 4


async def test_a_streamed_answer_comes_in_several_deltas_and_ends_with_the_whole() -> None:
    provider = ScriptedProvider([call("freeze", {"member": "John"}, text="One moment please")])
    *deltas, reply = [item async for item in provider.stream(HELLO)]
    assert isinstance(reply, ModelReply)
    assert all(isinstance(delta, ModelDelta) and delta.raw for delta in deltas)
    pieces = [piece for delta in deltas if isinstance(delta, ModelDelta) for piece in delta.calls]
    assert pieces[0] == CallDelta(index=0, id=reply.message.tool_calls[0].id, name="freeze")
    assert "".join(piece.arguments for piece in pieces) == '{"member":"John"}'
    texts = [delta.text for delta in deltas if isinstance(delta, ModelDelta) and delta.text]
    assert len(texts) > 1
    assert "".join(texts) == reply.message.content == "One moment please"


async def test_an_exception_in_the_script_is_raised() -> None:
    provider = ScriptedProvider([ProviderUnavailableError("down", status=503)])
    with pytest.raises(ProviderUnavailableError, match="down"):
        await provider.complete(HELLO)


async def test_a_step_may_be_an_async_function_of_the_request() -> None:
    release = asyncio.Event()

    async def slow(request: ModelRequest) -> Any:
        await release.wait()
        return say(request.model)

    waiting = asyncio.ensure_future(ScriptedProvider([slow]).complete(HELLO))
    release.set()
    assert (await waiting).message.content == "m"


async def test_a_used_up_script_says_how_many_answers_it_had() -> None:
    with pytest.raises(ScriptError, match="0 answers, and this is request 1"):
        await ScriptedProvider([]).complete(HELLO)


# over a socket


@asynccontextmanager
async def client_of(upstream: ScriptedUpstream, key: str = "test-key") -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=upstream.base_url, api_key=key, max_retries=0) as client:
        yield client


async def test_the_official_client_reads_a_plain_answer_with_calls() -> None:
    async with ScriptedUpstream([calls(("a", {"x": 1}), ("b", None))]) as upstream, client_of(upstream) as client:
        answer = await client.chat.completions.create(**asked(tools=[tool("a"), tool("b")]))
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert [(each.function.name, each.function.arguments) for each in choice.message.tool_calls or ()] == [
        ("a", '{"x":1}'),
        ("b", "{}"),
    ]
    assert answer.usage is not None
    assert answer.usage.total_tokens == 110
    assert upstream.bodies[0]["tools"] == [tool("a"), tool("b")]
    assert upstream.requests[0].outcome == "answered"


@pytest.mark.parametrize("include_usage", [True, False])
async def test_the_official_client_reads_a_stream_and_gets_usage_only_when_it_asked(include_usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    async with ScriptedUpstream([say("Hello there, you")]) as upstream, client_of(upstream) as client:
        chunks = [chunk async for chunk in await client.chat.completions.create(**asked(stream=True), **options)]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == "Hello there, you"
    assert [chunk.usage.total_tokens for chunk in chunks if chunk.usage] == ([110] if include_usage else [])


async def test_models_are_listed() -> None:
    async with ScriptedUpstream(models=["one", "two"]) as upstream, client_of(upstream) as client:
        assert [model.id async for model in client.models.list()] == ["one", "two"]


async def test_a_wrong_key_is_refused_and_a_missing_script_step_is_a_500() -> None:
    async with ScriptedUpstream([]) as upstream:
        async with client_of(upstream, key="wrong") as client:
            with pytest.raises(openai.AuthenticationError, match="Incorrect API key"):
                await client.chat.completions.create(**asked())
        async with client_of(upstream) as client:
            with pytest.raises(openai.InternalServerError, match="0 answers, and this is request 1"):
                await client.chat.completions.create(**asked())


async def test_300_tools_are_refused_exactly_as_the_provider_does_and_take_no_step() -> None:
    async with ScriptedUpstream([say("fine")]) as upstream, client_of(upstream) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(**asked(tools=[tool(f"t{n}") for n in range(300)]))
        assert refused.value.response.json() == {
            "error": {
                "message": "Invalid 'tools': array too long. Expected an array with maximum length 128, "
                "but got an array with length 300 instead.",
                "type": "invalid_request_error",
                "param": "tools",
                "code": "array_above_max_length",
            }
        }
        answer = await client.chat.completions.create(**asked(tools=[tool(f"t{n}") for n in range(128)]))
        assert answer.choices[0].message.content == "fine"
        assert len(upstream.refusals) == 1


def asks(*ids: str, **more: Any) -> dict[str, Any]:
    function = {"name": "freeze", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": each, "type": "function", "function": function} for each in ids],
        **more,
    }


def answers(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


USER = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "could not parse"),
        ({"messages": [USER]}, "model parameter"),
        ({"model": "m"}, "Missing required parameter: 'messages'"),
        (asked(messages=[]), "Invalid 'messages': empty array"),
        (asked(messages="hi"), "expected an array of objects"),
        (asked(messages=[{"role": "robot", "content": "x"}]), "Invalid value: 'robot'"),
        (asked(messages=[{"role": "user"}]), "Invalid value for 'content'"),
        (asked(messages=[USER, {"role": "tool", "content": "x"}]), "tool_call_id"),
        (asked(messages=[USER, answers("c1")]), "must be a response to a preceeding message"),
        (asked(messages=[USER, asks("c1")]), "did not have response messages: c1"),
        (asked(messages=[USER, asks("c1", "c2"), answers("c1"), USER]), "did not have response messages: c2"),
        (asked(messages=[USER, asks("c1"), answers("c2")]), "must be a response to a preceeding message"),
        (asked(messages=[USER, asks("c1"), answers("c1"), answers("c1")]), "must be a response"),
        (asked(messages=[USER, asks("c1", "c1"), answers("c1")]), "Duplicate value for 'tool_call_id'"),
        (asked(messages=[USER, asks("c" * 41)]), "maximum length 40, but got a string with length 41"),
        (asked(messages=[USER, asks()]), "tool_calls': empty array"),
        (asked(tools=[]), "Invalid 'tools': empty array"),
        (asked(tools=[tool("no spaces")]), "does not match pattern"),
        (asked(tools=[tool("x" * 65)]), "maximum length 64, but got a string with length 65"),
        (asked(tools=[tool(), tool()]), "must be unique"),
        (asked(tools=[tool(parameters={"type": "string"})]), 'type: "object"\', got \'type: "string"\''),
        (asked(tools=[{"function": {}}]), "tools[0].type"),
        (asked(tool_choice="auto"), "only allowed when 'tools' are specified"),
        (asked(tools=[tool()], tool_choice="sometimes"), "Invalid value: 'sometimes'"),
        (asked(tools=[tool()], tool_choice={"type": "function", "function": {"name": "no"}}), "no function named 'no'"),
        (asked(stream_options={"include_usage": True}), "only allowed when 'stream' is enabled"),
    ],
)
def test_what_the_provider_refuses_is_refused_in_its_words(body: Any, words: str) -> None:
    refused = refusal_of(body)
    assert refused is not None
    assert words in refused["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        asked(),
        asked(new_field={"a": 1}),
        asked(tools=[tool()], tool_choice="required", parallel_tool_calls=False),
        asked(tools=[tool()], tool_choice={"type": "function", "function": {"name": "freeze"}}),
        asked(messages=[USER, asks("c1", "c2"), answers("c2"), answers("c1"), USER, asks("c1"), answers("c1")]),
        asked(tools=[{"type": "custom", "custom": {"name": "grep"}}]),
        asked(stream=True, stream_options={"include_usage": True}),
    ],
)
def test_what_the_provider_takes_is_taken(body: Any) -> None:
    assert refusal_of(body) is None


async def post(upstream: ScriptedUpstream, **fields: Any) -> tuple[int, dict[str, str], bytes]:
    headers = {"authorization": "Bearer test-key"}
    async with (
        ClientSession() as session,
        session.post(f"{upstream.base_url}/chat/completions", json=asked(**fields), headers=headers) as response,
    ):
        return response.status, {k.lower(): v for k, v in response.headers.items()}, await response.read()


async def test_noise_is_sent_between_the_events_of_a_stream_and_never_with_a_plain_answer() -> None:
    async with ScriptedUpstream([noisy(say("Hello"), b": ping\n\n"), noisy(say("Hello"), b": ping\n\n")]) as upstream:
        _, headers, body = await post(upstream, stream=True)
        assert headers["content-type"].startswith("text/event-stream")
        assert body.count(b": ping") == body.count(b"data: ") > 1
        _, headers, body = await post(upstream)
        assert (headers["content-type"], msgspec.json.decode(body)["choices"][0]["message"]["content"]) == (
            "application/json",
            "Hello",
        )


async def test_faults_look_as_they_do_in_the_wild() -> None:
    script = [
        refuse(429, "slow down", headers={"retry-after": "7"}),
        garbage(b"<html>", content_type="text/html"),
        empty_choices(),
        cut(say("Hello there"), after=2, clean=True),
    ]
    async with ScriptedUpstream(script) as upstream:
        status, headers, body = await post(upstream)
        assert (status, headers["retry-after"], b"slow down" in body) == (429, "7", True)
        status, headers, body = await post(upstream)
        assert (status, headers["content-type"], body) == (200, "text/html", b"<html>")
        _, _, body = await post(upstream, stream=True)
        assert b'"choices":[]' in body
        _, _, body = await post(upstream, stream=True)
        assert body.count(b"data: ") == 2
        assert b"[DONE]" not in body


@pytest.mark.parametrize("stream", [True, False])
async def test_a_cut_answer_breaks_the_connection(stream: bool) -> None:
    async with ScriptedUpstream([cut(say("Hello there"), after=2)]) as upstream:
        with pytest.raises(ClientError):
            await post(upstream, stream=stream)
        await upstream.requests[0].over.wait()
        assert upstream.requests[0].outcome == "cut"


async def test_a_paced_stream_gives_one_event_for_each_release() -> None:
    gate = asyncio.Semaphore(0)
    async with ScriptedUpstream([paced(say("Hello"), gate)]) as upstream, client_of(upstream) as client:
        gate.release()
        stream = await client.chat.completions.create(**asked(stream=True))
        events = aiter(stream)
        assert (await anext(events)).choices[0].delta.role == "assistant"
        gate.release()
        assert (await anext(events)).choices[0].delta.content == "He"
        await stream.close()
        await upstream.requests[0].over.wait()
    assert upstream.requests[0].outcome == "client left"


async def test_an_endless_stream_ends_when_the_client_leaves() -> None:
    async with ScriptedUpstream([endless()]) as upstream, client_of(upstream) as client:
        async with await client.chat.completions.create(**asked(stream=True)) as stream:
            events = aiter(stream)
            for _ in range(100):
                await anext(events)
        await upstream.requests[0].over.wait()
    assert upstream.requests[0].outcome == "client left"


def test_without_a_loop_the_server_runs_in_a_thread() -> None:
    with ScriptedUpstream([say("hi")]) as upstream, openai.OpenAI(base_url=upstream.base_url, api_key="test-key") as it:
        assert it.chat.completions.create(**asked()).choices[0].message.content == "hi"


# ---------------------------------------------------------------- the package


def test_every_public_name_can_be_imported_from_the_package() -> None:
    assert [getattr(testing, name) for name in testing.__all__]
    assert set(testing.__all__) == set(testing._HOMES) <= set(dir(testing))
    assert sorted(testing._HOMES) == list(testing._HOMES)
    with pytest.raises(AttributeError, match=r"'toolcaddie\.testing' has no attribute 'nothing'"):
        _ = testing.nothing


def test_a_script_in_process_waits_for_no_http_server() -> None:
    code = "import sys; from toolcaddie.testing import ScriptedProvider, say; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
