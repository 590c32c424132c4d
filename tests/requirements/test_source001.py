"""Source 001, keywords under a provider's limit of 128 tools: demands that were proved too weakly, and its history window."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.requirements.scenes import names, work
from toolcaddie import Runtime
from toolcaddie.core.errors import ProviderRejectedError, ProviderUnavailableError
from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.run import RunRequest
from toolcaddie.core.schema import wire_definition
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.samples import gym
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, paced, say

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
GYM = tuple(Runtime(provider=ScriptedProvider([]), sources=[gym.source()]).source.snapshot())
LONG_LIST = (
    "clients salary attendance revenue trainers staff facility diets plans offers leads referrals documents goals "
    "photos notes classes appointments guests products campaigns equipment engagement gamification loyalty wearables "
    "surveys"
)


# ---------------------------------------------------------------- no model call


@pytest.mark.proves("R001-5")
async def test_finding_tools_by_keyword_asks_no_model_and_costs_nothing() -> None:
    """The one model call is the answer's own, although a first stage stands ready."""
    questions: list[str] = []

    async def classify(messages: Sequence[Message], view: Any) -> Sequence[str]:
        questions.append(messages[-1].text)
        return ["salary"]

    provider = ScriptedProvider([say("hi")])
    runtime = Runtime(provider=provider, sources=[gym.source()], preset="keyword", classifier=classify)
    result = await runtime.run("show me all clients")
    assert questions == []
    assert len(provider.requests) == 1
    assert (result.usage.input_tokens, result.usage.output_tokens) == (100, 10)
    assert result.selection is not None
    assert result.selection.matched == ("clients",)


@pytest.mark.proves("R001-5")
def test_finding_tools_by_keyword_takes_microseconds() -> None:
    """Some eighty on an idle machine; a thousand would be a millisecond."""
    runtime = Runtime(provider=ScriptedProvider([]), sources=[gym.source()], preset="keyword")
    runtime.select("warm up the index")
    times = [runtime.select(f"pay number {number}, and the classes of client {number}").seconds for number in range(51)]
    assert statistics.median(times) < 1_000e-6


_LONG_LIST_CUT = f"""
from toolcaddie import Runtime
from toolcaddie.samples import gym
from toolcaddie.testing import ScriptedProvider
runtime = Runtime(provider=ScriptedProvider([]), sources=[gym.source()], preset="keyword")
found = runtime.select({LONG_LIST!r})
print(",".join(found.names), ",".join(found.categories), ",".join(drop.name for drop in found.dropped))
"""


@pytest.mark.proves("R001-5", "X-6")
def test_the_same_tools_are_cut_in_every_process_and_in_catalog_order() -> None:
    """The first implementation iterated a set: which tools were lost changed from process to process."""

    def printed(seed: int) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        return subprocess.run(
            [sys.executable, "-c", _LONG_LIST_CUT],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout

    with ThreadPoolExecutor(2) as pool:
        outputs = set(pool.map(printed, (0, 1, 4_242)))
    assert len(outputs) == 1
    selected, _, dropped = (part.split(",") for part in outputs.pop().decode().split())
    order = [tool.name for tool in GYM]
    assert len(selected) == 128
    assert selected == sorted(selected, key=order.index)
    assert min(map(order.index, dropped)) > max(map(order.index, selected))


# ---------------------------------------------------------------- the history window


def matched(*messages: Message, preset: str = "keyword") -> tuple[str, ...]:
    runtime = Runtime(provider=ScriptedProvider([]), sources=[work(alpha=30, beta=30, gamma=30)], preset=preset)
    return runtime.select(RunRequest(messages=messages)).matched


def user(text: str) -> Message:
    return Message(role="user", content=text)


def reply(text: str = "I see.") -> Message:
    return Message(role="assistant", content=text)


@pytest.mark.proves("R001-12")
@pytest.mark.parametrize("preset", ["keyword", "default", "budget"])
def test_the_eighth_message_before_the_current_one_is_read_and_the_ninth_is_not(preset: str) -> None:
    """Messages of any role count: here seven replies stand between what the user said."""
    seven, now = [reply()] * 7, user("and those too?")
    assert matched(user("alpha"), *seven, now, preset=preset) == ("alpha",)
    assert "alpha" not in matched(user("alpha"), reply(), *seven, now, preset=preset)


@pytest.mark.proves("R001-12")
@pytest.mark.parametrize("preset", ["keyword", "default", "budget"])
def test_of_these_the_fourth_message_of_the_user_is_read_and_the_fifth_is_not(preset: str) -> None:
    others, now = [user("go on"), user("more"), user("yes")], user("and those too?")
    assert matched(user("alpha"), *others, now, preset=preset) == ("alpha",)
    assert "alpha" not in matched(user("alpha"), user("fine"), *others, now, preset=preset)


@pytest.mark.proves("R001-12")
def test_what_the_assistant_said_matches_no_category() -> None:
    assert matched(user("hello"), reply("Do you mean alpha or beta?"), user("gamma")) == ("gamma",)


@pytest.mark.proves("R001-12")
def test_tool_messages_fill_the_window_too() -> None:
    results = [Message(role="tool", content="alpha", tool_call_id=f"c{number}") for number in range(8)]
    assert matched(user("beta"), *results, user("gamma")) == ("gamma",)


# ---------------------------------------------------------------- settings of the model


@pytest.mark.proves("R001-23")
async def test_temperature_and_time_limit_of_a_model_request_are_settings() -> None:
    """Temperature 0 and 60 seconds, as in the source's example; the second is shortened to see it end."""
    gate = asyncio.Semaphore(0)
    async with ScriptedUpstream([say("hi"), paced(say("never"), gate)]) as upstream:
        patient = OpenAIChat(upstream.base_url, "test-key", timeout=60)
        async with Runtime(provider=patient, model="gpt-test", sources=[gym.source()], preset="keyword") as runtime:
            await runtime.run("show me all clients", params={"temperature": 0})
        hasty = OpenAIChat(upstream.base_url, "test-key", timeout=0.2)
        async with Runtime(provider=hasty, model="gpt-test", sources=[gym.source()], preset="keyword") as runtime:
            with pytest.raises(ProviderUnavailableError, match="did not answer in time"):
                await runtime.run("show me all clients", params={"temperature": 0})
    assert [body["temperature"] for body in upstream.bodies] == [0, 0]


class Watched:
    """A session that notes how long each request may take."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.seconds: list[float | None] = []

    async def request(self, *words: Any, timeout: aiohttp.ClientTimeout, **options: Any) -> aiohttp.ClientResponse:
        self.seconds.append(timeout.total)
        return await self._session.request(*words, timeout=timeout, **options)


@pytest.mark.proves("R001-23")
async def test_a_model_has_ten_minutes_unless_its_provider_is_told_otherwise() -> None:
    async with ScriptedUpstream([say("hi")] * 2) as upstream, aiohttp.ClientSession() as session:
        watched: Any = Watched(session)
        for options in ({}, {"timeout": 60.0}):
            provider = OpenAIChat(upstream.base_url, "test-key", session=watched, **options)
            await Runtime(provider=provider, model="gpt-test").run("hello")
    assert watched.seconds == [600.0, 60.0]


# ---------------------------------------------------------------- what failed with 137 tools


@pytest.mark.proves("R001-E7")
@pytest.mark.parametrize(
    ("message", "count"), [("How many clients do I have?", 32), ("Show me today's attendance", 14)]
)
async def test_what_the_provider_refused_with_137_tools_is_answered(message: str, count: int) -> None:
    """The server refuses a 129th tool in the provider's own words."""
    async with ScriptedUpstream(lambda body: say("You have 40.")) as upstream:
        provider = OpenAIChat(upstream.base_url, "test-key")
        everything = tuple(wire_definition(tool) for tool in GYM)
        request = ModelRequest(model="gpt-test", messages=(user(message),), tools=everything)
        with pytest.raises(ProviderRejectedError, match=r"maximum length 128.*137"):
            await provider.complete(request)
        async with Runtime(provider=provider, model="gpt-test", sources=[gym.source()], preset="keyword") as runtime:
            result = await runtime.run(message)
    assert result.text == "You have 40."
    assert len(names(upstream.bodies[-1])) == count
