"""Retries, cache and fallback are counted and compared with the goals for forced tool use: in metrics, and in a report."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.databases import database_url

sys.path.insert(0, str(Path(__file__).parent / "doors"))

from commandline import CommandLine

from toolcaddie import Database, Runtime, tool
from toolcaddie.audit.trail import Trail
from toolcaddie.core.usage import Usage
from toolcaddie.evaluation.goals import goals_of, read_goals
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.telemetry import PrometheusSink
from toolcaddie.testing import ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

TOKENS = Usage(input_tokens=90, output_tokens=10)
WORDS = replace(say("Bees are lovely."), usage=TOKENS)
FOUND = replace(call("search_books", {"title": "bees"}), usage=TOKENS)
DONE = replace(say("There is one."), usage=TOKENS)


class Shelf:
    """A tool that fails as often as it is told to."""

    def __init__(self, fails: int) -> None:
        self.left = fails

    def search(self) -> Any:
        @tool(read_only=True)
        async def search_books(title: str) -> list[str]:
            """Find books."""
            if self.left:
                self.left -= 1
                raise OSError("the shelf is busy")
            return ["The Hive"]

        return search_books


async def agents_day(folder: Path, registry: CollectorRegistry) -> str:
    """The URL of a database with four chats: one whose tool fails once, one answered from the cache, one asked again, one given
    to the fallback."""
    url = database_url(folder / "toolcaddie.sqlite")
    script = [FOUND, DONE, FOUND, DONE, WORDS, FOUND, DONE, WORDS, WORDS]
    async with (
        ScriptedUpstream(script) as upstream,
        ScriptedUpstream([FOUND, DONE]) as second,
        Database(url) as database,
    ):
        fallback = {"provider": "openai", "model": "second", "apiKey": "test-key", "baseUrl": second.base_url}
        config = {"forceToolUse": True, "maxRetries": 2, "cacheResults": {}, "fallbackProvider": fallback}
        async with Runtime(
            provider=OpenAIChat(upstream.base_url, "test-key", name="ollama"),
            model="llama3.1",
            sources=Shelf(1).search(),
            tool_config=config,
            trail=Trail(database.events),
            sinks=[PrometheusSink(registry)],
        ) as runtime:
            for _ in range(4):
                result = await runtime.run("is there any book on bees?")
                assert result.tool_calls == ("search_books",)
    return url


@pytest.mark.proves("A-9")
async def test_a_server_counts_attempts_kept_results_repeated_tools_and_who_stepped_in(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    await agents_day(tmp_path, registry)
    lines = dict(
        line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")
    )
    assert lines['toolcaddie_model_attempts_total{how="plain",outcome="not_called",provider="ollama"}'] == "2.0"
    assert lines['toolcaddie_model_attempts_total{how="plain",outcome="answered",provider="openai"}'] == "1.0"
    assert lines['toolcaddie_tool_retries_total{tool="search_books"}'] == "1.0"
    assert lines['toolcaddie_tool_results_cached_total{tool="search_books"}'] == "3.0"
    assert lines['toolcaddie_fallback_answers_total{provider="openai"}'] == "2.0"


@pytest.mark.proves("A-9")
async def test_the_report_holds_what_was_reached_against_the_goals(tmp_path: Path) -> None:
    url = await agents_day(tmp_path, CollectorRegistry())
    async with Database(url) as database:
        goals, unread = await read_goals(database.events)
    assert unread == 0
    assert (goals.runs, goals.forced, goals.called_at_first, goals.called, goals.by_fallback) == (4, 4, 2, 4, 1)
    assert (goals.attempts, goals.in_vain) == (7, 3)
    assert (goals.calls, goals.cached, goals.retried, goals.mended) == (4, 3, 1, 1)
    calls, latency, cost = goals.goals
    assert (calls.goal, calls.reached, calls.most, calls.met) == (0.8, 1.0, 1.0, True)
    assert latency.goal == 0.4
    assert latency.reached is not None
    # Six requests in chats that called at once (200 tokens each), one lost in words: half of the chats are asked again.
    assert goals.tokens_without == pytest.approx(200 + 100)
    assert goals.tokens_an_answer == pytest.approx((200 + 200 + 300 + 400) / 4)
    assert cost.reached == pytest.approx(1 - 275 / 300)
    assert cost.met is False


def test_where_nothing_is_recorded_nothing_is_claimed() -> None:
    assert [goal.met for goal in goals_of([]).goals] == [None, None, None]


async def test_the_report_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = await agents_day(tmp_path, CollectorRegistry())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLCADDIE_DATABASE_URL", url)

    def outputs() -> tuple[str, Any]:
        line = CommandLine(tmp_path)
        return line.ok("eval", "goals"), line.json("eval", "goals")

    text, document = await asyncio.to_thread(outputs)
    assert "4 runs; in 4 a tool had to be called: 2 called one at the first attempt, 4 in the end, 1 of them by" in text
    assert "successful calls" in text
    assert "met" in text
    assert [goal["name"] for goal in document["goals"]] == ["successful calls", "latency with cache", "cost"]
    assert document["goals"][0]["met"] is True


def test_without_a_recorded_run_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLCADDIE_DATABASE_URL", raising=False)
    assert "no run is recorded yet" in CommandLine(tmp_path).refused("eval", "goals")
