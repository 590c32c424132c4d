"""Asking again: over real sockets, with a clock and a sleep of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from toolcaddie.core.errors import (
    ConfigError,
    ProviderAuthError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
)
from toolcaddie.core.message import Message, ModelReply, ModelRequest
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.retry import Retry
from toolcaddie.testing import ScriptedUpstream, cut, paced, refuse, say

pytestmark = pytest.mark.anyio

HELLO = ModelRequest(model="gpt-test", messages=(Message(role="user", content="hello"),))
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


@asynccontextmanager
async def retried(script: Any, **options: Any) -> AsyncIterator[tuple[Retry, ScriptedUpstream, list[float]]]:
    """A retrying provider, its upstream, and the seconds it wanted to wait."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with ScriptedUpstream(script) as upstream:
        provider = Retry(
            OpenAIChat(upstream.base_url, "test-key"), **{"sleep": sleep, "chance": lambda: 0.0, **options}
        )
        try:
            yield provider, upstream, waits
        finally:
            await provider.close()


async def asked(provider: Any, stream: bool) -> ModelReply:
    if not stream:
        return await provider.complete(HELLO)
    items = [item async for item in provider.stream(HELLO)]
    assert isinstance(items[-1], ModelReply)
    return items[-1]


@both_ways
async def test_what_may_pass_is_tried_again_and_every_try_is_written_down(stream: bool) -> None:
    async with retried([refuse(500), refuse(429), say("hi")]) as (provider, upstream, waits):
        reply = await asked(provider, stream)
    assert reply.message.text == "hi"
    assert [(attempt.outcome, attempt.provider, attempt.model) for attempt in reply.attempts] == [
        ("failed", "openai", "gpt-test"),
        ("failed", "openai", "gpt-test"),
        ("answered", "openai", "gpt-test"),
    ]
    assert "HTTP 500" in reply.attempts[0].detail
    assert reply.usage == reply.attempts[2].usage
    assert waits == [0.5, 1.0]
    assert len(upstream.bodies) == 3


@both_ways
async def test_after_the_last_attempt_the_error_is_raised(stream: bool) -> None:
    async with retried([refuse(503)] * 3) as (provider, upstream, waits):
        with pytest.raises(ProviderUnavailableError):
            await asked(provider, stream)
    assert len(upstream.bodies) == 3
    assert len(waits) == 2


@both_ways
@pytest.mark.parametrize(("status", "kind"), [(400, ProviderRejectedError), (401, ProviderAuthError)])
async def test_what_will_not_pass_is_raised_at_once(stream: bool, status: int, kind: type[Exception]) -> None:
    async with retried([refuse(status)]) as (provider, upstream, waits):
        with pytest.raises(kind):
            await asked(provider, stream)
    assert len(upstream.bodies) == 1
    assert waits == []


async def test_a_first_answer_goes_through_as_it_is() -> None:
    async with retried([say("hi")]) as (provider, _, _):
        reply = await asked(provider, stream=False)
    assert reply.attempts == ()
    assert reply.provider == ""


async def test_a_provider_that_names_a_time_is_given_it() -> None:
    async with retried([refuse(429, headers={"retry-after": "7"}), say("hi")]) as (provider, _, waits):
        await asked(provider, stream=False)
    assert waits == [7.0]


async def test_a_time_above_the_longest_wait_is_not_waited_for() -> None:
    async with retried([refuse(429, headers={"retry-after": "31"})]) as (provider, upstream, waits):
        with pytest.raises(ProviderRateLimitError) as raised:
            await asked(provider, stream=False)
    assert raised.value.retry_after == 31
    assert waits == []
    assert len(upstream.bodies) == 1


async def test_waits_double_up_to_the_longest_and_chance_adds_to_them() -> None:
    options = {"attempts": 5, "first_wait": 1.0, "longest_wait": 3.0, "chance": lambda: 1.0}
    async with retried([refuse(500)] * 4 + [say("hi")], **options) as (provider, _, waits):
        await asked(provider, stream=False)
    assert waits == pytest.approx([1.3, 2.6, 3.9, 3.9])


async def test_a_stream_that_was_shown_is_not_begun_again() -> None:
    async with retried([cut(say("one two three"), after=3), say("hi")]) as (provider, upstream, waits):
        with pytest.raises(ProviderProtocolError):
            await asked(provider, stream=True)
    assert waits == []
    assert len(upstream.bodies) == 1


async def test_a_stream_cut_before_anything_was_shown_is_begun_again() -> None:
    async with retried([cut(say("x"), after=0), say("hi")]) as (provider, _, _):
        assert (await asked(provider, stream=True)).message.text == "hi"


async def test_cancelling_ends_a_wait_at_once() -> None:
    waiting = asyncio.Event()

    async def forever(_: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async with retried([refuse(500), say("hi")], sleep=forever) as (provider, upstream, _):
        task = asyncio.create_task(provider.complete(HELLO))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(upstream.bodies) == 1


async def test_closing_a_stream_closes_the_connection() -> None:
    gate = asyncio.Semaphore(3)
    async with retried([paced(say("one two three"), gate)]) as (provider, upstream, _):
        async with aclosing(provider.stream(HELLO)) as items:
            await anext(items)
        async with asyncio.timeout(5):
            await upstream.requests[0].over.wait()
    assert upstream.requests[0].outcome == "client left"


async def test_models_are_those_of_the_provider() -> None:
    async with retried([]) as (provider, _, _):
        assert [model["id"] for model in await provider.models()] == ["gpt-test"]


async def test_no_attempt_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Retry(OpenAIChat("http://127.0.0.1:9/v1"), attempts=0)
