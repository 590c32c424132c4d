"""Several providers as one: by error, by capability, and what the next one is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from toolcaddie.core.capabilities import CAPABILITIES, capabilities_from
from toolcaddie.core.errors import (
    ConfigError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
    RequestError,
)
from toolcaddie.core.message import Force, Message, ModelReply, ModelRequest
from toolcaddie.core.usage import Usage
from toolcaddie.providers.fallback import Fallback
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.retry import Retry
from toolcaddie.providers.wrapping import Entry
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, cut, garbage, refuse, say

pytestmark = pytest.mark.anyio

HELLO = ModelRequest(model="gpt-test", messages=(Message(role="user", content="hello"),))
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


def tools(*names: str) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in names
    )


def table(**kinds: str) -> Sequence[Any]:
    return [
        *(capabilities_from({"pattern": f"{name}:*", "tools": kind}) for name, kind in kinds.items()),
        *CAPABILITIES,
    ]


@asynccontextmanager
async def chained(*scripts: Any, **options: Any) -> AsyncIterator[tuple[Fallback, list[ScriptedUpstream]]]:
    """Providers named one, two, three, each behind a server of its own."""
    async with AsyncExitStack() as stack:
        upstreams = [await stack.enter_async_context(ScriptedUpstream(script)) for script in scripts]
        entries = [
            Entry(
                provider=OpenAIChat(upstream.base_url, "test-key", name=name),
                model="" if name == "one" else f"m-{name}",
            )
            for name, upstream in zip(("one", "two", "three"), upstreams, strict=False)
        ]
        provider = Fallback(entries, **options)
        try:
            yield provider, upstreams
        finally:
            await provider.close()


async def asked(provider: Any, stream: bool, request: ModelRequest = HELLO) -> ModelReply:
    if not stream:
        return await provider.complete(request)
    items = [item async for item in provider.stream(request)]
    assert isinstance(items[-1], ModelReply)
    return items[-1]


@both_ways
async def test_where_all_fail_the_error_of_the_last_names_every_attempt(stream: bool) -> None:
    last = refuse(429, "slow down", headers={"retry-after": "7"})
    async with chained([refuse(500, "boom")], [refuse(400, "no")], [last]) as (provider, _):
        with pytest.raises(ProviderRateLimitError) as raised:
            await asked(provider, stream)
    error = raised.value
    assert str(error) == (
        "one:gpt-test failed: boom (HTTP 500); two:m-two failed: no (HTTP 400); "
        "three:m-three failed: slow down (HTTP 429, retry after 7 s)"
    )
    assert (error.status, error.retry_after, b"slow down" in error.body) == (429, 7.0, True)
    assert [(attempt.provider, attempt.outcome) for attempt in error.attempts] == [
        ("one", "failed"),
        ("two", "failed"),
        ("three", "failed"),
    ]


async def test_tries_below_a_fallback_are_counted_too() -> None:
    async def at_once(_: float) -> None: ...

    async with chained([refuse(500, "boom")] * 3) as (one, _), chained([refuse(400, "no")]) as (two, _):
        provider = Fallback([Entry(provider=Retry(one, sleep=at_once)), Entry(provider=two, model="m-two")])
        with pytest.raises(ProviderRejectedError) as raised:
            await provider.complete(HELLO)
    told = "one:gpt-test failed 3 times: boom (HTTP 500); one:m-two failed: no (HTTP 400)"
    assert (str(raised.value), len(raised.value.attempts)) == (told, 4)


async def test_the_error_of_one_attempt_is_worded_as_it_was() -> None:
    once = ProviderUnavailableError("closed for today")
    provider = Fallback([Entry(provider=ScriptedProvider([once, once]))])
    for _ in range(2):
        with pytest.raises(ProviderUnavailableError, match=r"^closed for today$") as raised:
            await provider.complete(HELLO)
        assert len(raised.value.attempts) == 1
    assert once.attempts == ()


@both_ways
@pytest.mark.parametrize("fault", [refuse(500), refuse(429), refuse(401), refuse(400), garbage()], ids=str)
async def test_any_error_leads_to_the_next(stream: bool, fault: Any) -> None:
    async with chained([fault], [say("hi")]) as (provider, upstreams):
        reply = await asked(provider, stream)
    assert reply.message.text == "hi"
    assert reply.provider == "two"
    assert reply.model == "m-two"
    assert [(attempt.provider, attempt.model, attempt.outcome) for attempt in reply.attempts] == [
        ("one", "gpt-test", "failed"),
        ("two", "m-two", "answered"),
    ]
    assert [upstream.bodies[0]["model"] for upstream in upstreams] == ["gpt-test", "m-two"]


@both_ways
async def test_the_first_answers_where_it_can(stream: bool) -> None:
    async with chained([say("hi")], []) as (provider, upstreams):
        reply = await asked(provider, stream)
    assert reply.provider == ""
    assert upstreams[1].bodies == []


@both_ways
async def test_where_all_fail_the_last_error_is_raised(stream: bool) -> None:
    async with chained([refuse(500)], [refuse(400, "no such model")]) as (provider, _):
        with pytest.raises(ProviderRejectedError, match="no such model"):
            await asked(provider, stream)


async def test_what_was_shown_is_not_begun_again_elsewhere() -> None:
    async with chained([cut(say("one two three"), after=3)], [say("hi")]) as (provider, upstreams):
        with pytest.raises(ProviderProtocolError):
            await asked(provider, stream=True)
    assert upstreams[1].bodies == []


@pytest.mark.proves("R002-19", "X-7")
@both_ways
async def test_tools_go_to_who_calls_them_natively_then_in_words_and_never_to_who_cannot(stream: bool) -> None:
    with_tools = ModelRequest(model="gpt-test", messages=HELLO.messages, tools=tools("freeze"))
    kinds = table(one="none", two="text", three="native")
    scripts = [say("words")], [call("freeze")], [refuse(500)]
    async with chained(*scripts, capabilities=kinds) as (provider, upstreams):
        reply = await asked(provider, stream, with_tools)
        assert (await asked(provider, stream)).message.text == "words"
    assert reply.provider == "two"
    assert reply.message.tool_calls[0].name == "freeze"
    assert [attempt.provider for attempt in reply.attempts] == ["three", "two"]
    assert [len(upstream.bodies) for upstream in upstreams] == [1, 1, 1]
    assert "tools" not in upstreams[0].bodies[0]


@both_ways
async def test_where_nobody_can_call_tools_the_request_is_refused(stream: bool) -> None:
    with_tools = ModelRequest(model="gpt-test", messages=HELLO.messages, tools=tools("freeze"))
    async with chained([], capabilities=table(one="none")) as (provider, upstreams):
        with pytest.raises(RequestError, match="none of the providers"):
            await asked(provider, stream, with_tools)
    assert upstreams[0].bodies == []


async def test_another_provider_never_sees_the_callers_headers_or_the_first_ones_parameters() -> None:
    request = ModelRequest(
        model="gpt-test",
        messages=HELLO.messages,
        headers={"authorization": "Bearer theirs", "x-team": "a"},
        params={"temperature": 0.5, "reasoning_effort": "high", "vendor_switch": True},
    )
    async with chained([refuse(500)], [say("hi")]) as (provider, upstreams):
        await provider.complete(request)
    first, second = upstreams[0].requests[0], upstreams[1].requests[0]
    assert first.headers["x-team"] == "a"
    assert "x-team" not in second.headers
    assert first.body["vendor_switch"] is True
    assert second.body["temperature"] == 0.5
    assert not {"vendor_switch", "reasoning_effort"} & second.body.keys()


async def test_an_entry_has_a_model_and_parameters_of_its_own() -> None:
    one, two = ScriptedProvider([refuse_with(500)], name="one"), ScriptedProvider([say("hi")], name="two")
    entries = [
        Entry(provider=one, model="big", params={"temperature": 0.1}),
        Entry(provider=two, model="small", params={"temperature": 0.9}),
    ]
    await Fallback(entries).complete(ModelRequest(model="asked", messages=HELLO.messages, params={"temperature": 0.5}))
    assert (one.requests[0].model, one.requests[0].params) == ("big", {"temperature": 0.1})
    assert (two.requests[0].model, two.requests[0].params) == ("small", {"temperature": 0.9})


def refuse_with(status: int) -> Exception:
    return ProviderRejectedError("no", status=status)


async def test_tools_that_the_next_cannot_hold_back_or_mask_are_sent_openly_and_within_its_cap() -> None:
    names = [f"t{number}" for number in range(10)]
    request = ModelRequest(
        model="m",
        messages=(*HELLO.messages, Message(role="tool", tool_call_id="c", content="", revealed=("t8",))),
        tools=[msgspec.Raw(msgspec.json.encode(tool)) for tool in tools(*names)],
        deferred=frozenset(names[5:]),
        force=Force(candidates=("t9",)),
    )
    one, two = ScriptedProvider([refuse_with(400)], name="one"), ScriptedProvider([say("hi")], name="two")
    small = [capabilities_from({"pattern": "two:*", "tool_cap": 7}), *CAPABILITIES]
    await Fallback([Entry(provider=one), Entry(provider=two)], capabilities=small).complete(request)
    sent = [msgspec.json.decode(tool)["function"]["name"] for tool in two.requests[0].tools]
    assert sent == ["t0", "t1", "t2", "t3", "t4", "t8", "t9"]
    assert two.requests[0].deferred == frozenset()


async def test_a_mask_that_the_next_does_not_know_becomes_a_shorter_array() -> None:
    request = ModelRequest(model="m", messages=HELLO.messages, tools=tools("a", "b", "c"), allowed=("a", "c"))
    one, two = ScriptedProvider([refuse_with(400)], name="one"), ScriptedProvider([say("hi")], name="two")
    await Fallback([Entry(provider=one), Entry(provider=two)]).complete(request)
    assert [tool["function"]["name"] for tool in two.requests[0].tools] == ["a", "c"]
    assert two.requests[0].allowed is None


async def test_usage_is_that_of_all_and_attempts_below_are_kept() -> None:
    async def at_once(_: float) -> None:
        return

    async with ScriptedUpstream([refuse(500), say("hi")]) as upstream:
        inner = Retry(OpenAIChat(upstream.base_url, "test-key", name="two"), sleep=at_once)
        broken = ScriptedProvider([refuse_with(400)], name="one")
        provider = Fallback([Entry(provider=broken), Entry(provider=inner, model="m")])
        reply = await provider.complete(HELLO)
        await provider.close()
    assert [(attempt.provider, attempt.outcome) for attempt in reply.attempts] == [
        ("one", "failed"),
        ("two", "failed"),
        ("two", "answered"),
    ]
    assert reply.usage == Usage(input_tokens=100, output_tokens=10)
    assert broken.closed


async def test_models_are_those_of_the_first_and_no_provider_at_all_is_refused() -> None:
    provider = Fallback([Entry(provider=ScriptedProvider([], name="one", models=("a",)))])
    assert [model["id"] for model in await provider.models()] == ["a"]
    with pytest.raises(ConfigError, match="at least one"):
        Fallback([])


@both_ways
@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_callers_own_wrong_key_does_not_buy_it_the_fallbacks(status: int, stream: bool) -> None:
    async with chained([refuse(status)], [say("hi")]) as (provider, upstreams):
        theirs = replace(HELLO, headers={"Authorization": "Bearer garbage"})
        with pytest.raises(ProviderError) as raised:
            await asked(provider, stream, theirs)
    assert raised.value.status == status
    assert not upstreams[1].requests
