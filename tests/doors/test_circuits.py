"""A gateway in front of a model that fails again and again: over real sockets, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.serving import gateway
from tests.storage.conftest import Clock
from toolcaddie.core.breakers import BreakerSettings
from toolcaddie.guards.breakers import Breakers
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.testing import Reply, ScriptedUpstream, refuse, say

pytestmark = pytest.mark.anyio

SETTINGS = BreakerSettings(requests=4, share=0.5, window=10, pause=5, longest_pause=8)
TOOL = {"type": "function", "function": {"name": "wave", "parameters": {"type": "object", "properties": {}}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any


Ask = Callable[..., Any]


@asynccontextmanager
async def asked(
    folder: Path, upstream: str, clock: Clock, settings: BreakerSettings = SETTINGS, **options: Any
) -> AsyncIterator[Ask]:
    provider = OpenAIChat(upstream, "test-key", default_model="m")
    provider.break_with(Breakers(settings, clock=clock))
    async with gateway(folder, provider, **options) as served, aiohttp.ClientSession() as session:

        async def ask(**more: Any) -> Answer:
            body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], **more}
            async with session.post(f"{served.base_url}/v1/chat/completions", json=body) as answer:
                return Answer(status=answer.status, headers=answer.headers, body=await answer.json())

        yield ask


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("more", [{}, {"tools": [TOOL]}], ids=["passed on", "run"])
async def test_after_many_failures_requests_fail_at_once_until_a_trial_succeeds(
    more: dict[str, Any], tmp_path: Path, clock: Clock
) -> None:
    script = [*[refuse(503, "down")] * 5, say("I am back."), say("And stay.")]
    async with ScriptedUpstream(script) as upstream, asked(tmp_path, upstream.base_url, clock) as ask:
        assert [(await ask(**more)).status for _ in range(4)] == [503] * 4
        refused = await ask(**more)
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert refused.body["error"]["code"] == "upstream_paused"
        assert "has failed too often" in refused.body["error"]["message"]
        assert len(upstream.requests) == 4
        clock.now += 5
        assert (await ask(**more)).body["error"]["code"] != "upstream_paused"  # the trial, which fails
        refused = await ask(**more)
        assert (refused.status, refused.headers["retry-after"]) == (503, "8")
        clock.now += 8
        answers = [await ask(**more), await ask(**more)]
        assert [each.body["choices"][0]["message"]["content"] for each in answers] == ["I am back.", "And stay."]


async def test_while_one_request_is_the_trial_the_others_are_told_to_come_again(tmp_path: Path, clock: Clock) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def slow(body: Any) -> Reply:
        begun.set()
        await gate.wait()
        return say("I am back.")

    async with (
        ScriptedUpstream([*[refuse(500, "down")] * 4, slow]) as upstream,
        asked(tmp_path, upstream.base_url, clock) as ask,
    ):
        for _ in range(4):
            await ask()
        clock.now += 5
        trial = asyncio.create_task(ask())
        await begun.wait()
        other = await ask()
        assert (other.status, other.headers["retry-after"]) == (503, "1")
        gate.set()
        assert (await trial).status == 200


async def test_errors_of_the_request_are_no_failures_of_the_model(tmp_path: Path, clock: Clock) -> None:
    script = [*[refuse(400, "wrong")] * 8, *[refuse(429, "slowly")] * 4, say("yes")]
    async with ScriptedUpstream(script) as upstream, asked(tmp_path, upstream.base_url, clock) as ask:
        statuses = [(await ask()).status for _ in range(13)]
        assert statuses == [400] * 8 + [429] * 4 + [200]


async def test_failures_that_lie_far_apart_open_nothing(tmp_path: Path, clock: Clock) -> None:
    script = [*[refuse(500, "down")] * 8, say("yes")]
    async with ScriptedUpstream(script) as upstream, asked(tmp_path, upstream.base_url, clock) as ask:
        for _ in range(8):
            assert (await ask()).status == 500
            clock.now += 11
        assert (await ask()).status == 200


async def test_a_server_that_refuses_connections_is_left_alone_too(tmp_path: Path, clock: Clock) -> None:
    async with ScriptedUpstream([]) as gone:
        address = gone.base_url
    async with asked(tmp_path, address, clock) as ask:
        answers = [await ask() for _ in range(5)]
        assert [each.body["error"]["code"] for each in answers] == ["upstream_down"] * 4 + ["upstream_paused"]


async def test_the_fallback_answers_while_the_model_is_left_alone(tmp_path: Path, clock: Clock) -> None:
    async with (
        ScriptedUpstream([refuse(500, "down")] * 4) as upstream,
        ScriptedUpstream([say("from the fallback")] * 6) as other,
        asked(
            tmp_path,
            upstream.base_url,
            clock,
            forwards=False,
            fallbacks=[OpenAIChat(other.base_url, "test-key", default_model="m", name="other")],
        ) as ask,
    ):
        answers = [await ask() for _ in range(6)]
        assert {each.body["choices"][0]["message"]["content"] for each in answers} == {"from the fallback"}
        assert (len(upstream.requests), len(other.requests)) == (4, 6)


async def test_breakers_that_are_turned_off_stop_nothing(tmp_path: Path, clock: Clock) -> None:
    async with (
        ScriptedUpstream([refuse(500, "down")] * 20) as upstream,
        asked(tmp_path, upstream.base_url, clock, BreakerSettings(enabled=False)) as ask,
    ):
        for _ in range(20):
            await ask()
        assert len(upstream.requests) == 20
