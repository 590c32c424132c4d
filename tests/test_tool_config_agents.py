"""An agent with `toolConfig`, end to end: the keys as the requirement spells them, over real scripted servers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from toolcaddie import PRESETS, Limits, RunRequest, RunResult, Runtime, tool
from toolcaddie.core.errors import ToolNotCalledError
from toolcaddie.core.events import RunFinished
from toolcaddie.core.message import Message
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.storage.cache import MemoryCache
from toolcaddie.telemetry.logs import StructlogSink
from toolcaddie.testing import ScriptedUpstream, call, calls, refuse, say

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[1]
ASKED = "is there any book on keeping bees?"
FORCED: Mapping[str, Any] = {"forceToolUse": True, "maxRetries": 3}
WORDS = say("Bees are kept by many people.")
FOUND = call("search_books", {})
DONE = say("There are two books on bees.")


class Library:
    """The source's example: a search that counts how often it really ran."""

    def __init__(self, *results: Any) -> None:
        self.runs: list[dict[str, Any]] = []
        self._results = results or (["Bees", "More bees"],)

    def search(self, name: str = "search_books", **options: Any) -> Callable[..., Any]:
        @tool(name=name, **{"read_only": True, **options})
        def search_books(title: str = "", where: dict[str, Any] | None = None) -> Any:
            """Find books."""
            self.runs.append({"title": title, "where": where})
            result = self._results[min(len(self.runs), len(self._results)) - 1]
            if isinstance(result, Exception):
                raise result
            return result

        return search_books


class Agent:
    def __init__(self, runtime: Runtime, upstream: ScriptedUpstream, second: ScriptedUpstream) -> None:
        self.runtime = runtime
        self.upstream = upstream
        self.second = second

    async def chat(self, message: str = ASKED, **options: Any) -> RunResult:
        return await self.runtime.run(message, **options)

    async def streamed(self, message: str = ASKED) -> RunResult:
        events = [event async for event in self.runtime.stream(message)]
        assert isinstance(events[-1], RunFinished)
        return events[-1].result

    @property
    def heard(self) -> list[str]:
        """The user's message, as each request to the first provider has it."""
        return list(map(last_words, self.upstream.bodies))


def last_words(body: Any) -> str:
    return str(next(message["content"] for message in reversed(body["messages"]) if message["role"] == "user"))


def tools_of(body: Any) -> list[str]:
    return [each["function"]["name"] for each in body.get("tools", ())]


def results_of(body: Any) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


@asynccontextmanager
async def agent(
    script: Any, config: Mapping[str, Any] | None = None, *, fallback: Any = None, sources: Any = None, **options: Any
) -> AsyncIterator[Agent]:
    """An agent with a model of its own, and the fallback of its configuration behind a second server."""
    async with ScriptedUpstream(script) as upstream, ScriptedUpstream(fallback or []) as second:
        if fallback is not None:
            other = {"provider": "openai", "model": "gpt-4-turbo-preview", "apiKey": "test-key"}
            config = {**(config or {}), "fallbackProvider": {**other, "baseUrl": second.base_url}}
        runtime = Runtime(
            provider=OpenAIChat(upstream.base_url, "test-key", name="ollama"),
            model="llama3.1",
            sources=[Library().search()] if sources is None else sources,
            tool_config=config,
            **options,
        )
        try:
            yield Agent(runtime, upstream, second)
        finally:
            await runtime.close()


# ---------------------------------------------------------------- the agent


@pytest.mark.proves("R003-1", "R003-33")
async def test_an_agent_is_a_provider_a_model_tools_and_a_configuration() -> None:
    library = Library()
    async with agent([WORDS, FOUND, DONE], FORCED, sources=[library.search()]) as mine:
        result = await mine.chat()
    assert result.text == "There are two books on bees."
    assert library.runs == [{"title": "", "where": None}]
    assert {body["model"] for body in mine.upstream.bodies} == {"llama3.1"}
    assert tools_of(mine.upstream.bodies[0]) == ["search_books"]


@pytest.mark.proves("R003-9", "R003-17")
@pytest.mark.parametrize("config", [None, {}, {"forceToolUse": False}], ids=["none", "empty", "not forced"])
async def test_without_forcing_the_first_answer_is_the_answer(config: Any) -> None:
    async with agent([WORDS], config) as mine:
        result = await mine.chat()
    assert result.text == "Bees are kept by many people."
    assert mine.heard == [ASKED]
    assert "tool_choice" not in mine.upstream.bodies[0]


# ---------------------------------------------------------------- attempts


@pytest.mark.proves("R003-2", "R003-4", "R003-11", "R003-12", "R003-13", "R003-19", "R003-30")
async def test_three_attempts_in_all_and_only_the_first_is_the_plain_message() -> None:
    async with agent([WORDS, WORDS, WORDS], FORCED) as mine:
        await mine.chat()
    first, second, third = mine.heard
    assert first == ASKED
    for enhanced in (second, third):
        assert enhanced.startswith(ASKED)
        assert "one of the tools" in enhanced
        assert "general knowledge" in enhanced
        assert enhanced.count("Answer this by") == 1
    assert second not in third, "an enhancement is never added to another one"


async def test_a_conversation_keeps_the_plain_message() -> None:
    async with agent([WORDS, FOUND, DONE], FORCED) as mine:
        result = await mine.chat()
    assert mine.heard[2] == ASKED
    assert result.state.messages[0].text == ASKED


@pytest.mark.proves("R003-18")
async def test_an_empty_list_of_calls_is_not_a_call() -> None:
    async with agent([say("Bees.", extra={"tool_calls": []}), FOUND, DONE], FORCED) as mine:
        result = await mine.chat()
    assert result.tool_calls == ("search_books",)
    assert len(mine.heard) == 3


# ---------------------------------------------------------------- the fallback


@pytest.mark.proves("R003-6", "R003-14", "R003-19", "R003-20", "R003-27", "R003-30", "X-11", "X-30")
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_the_fallback_answers_with_the_same_tools_and_the_original_message_and_is_named(stream: bool) -> None:
    async with agent([WORDS] * 3, FORCED, fallback=[FOUND, DONE]) as mine:
        result = await (mine.streamed() if stream else mine.chat())
    question, then = mine.second.bodies
    assert last_words(question) == last_words(then) == ASKED
    assert question["tools"] == mine.upstream.bodies[0]["tools"]
    assert question["model"] == "gpt-4-turbo-preview"
    assert len(mine.heard) == 3
    assert result.tool_calls == ("search_books",)
    assert result.text == "There are two books on bees."
    assert result.provider == "openai"


async def test_who_answers_is_named_where_nobody_stepped_in() -> None:
    async with agent([FOUND, DONE], FORCED, fallback=[]) as mine:
        result = await mine.chat()
    assert (result.provider, result.tool_calls) == ("ollama", ("search_books",))


async def test_the_turn_after_a_fallback_is_the_agents_own_again() -> None:
    async with agent([WORDS, WORDS, WORDS, FOUND, DONE], FORCED, fallback=[FOUND, DONE]) as mine:
        first = await mine.chat()
        again = [*first.state.messages, Message(role="user", content="and on wasps?")]
        second = await mine.runtime.run(RunRequest(messages=again))
    assert (first.provider, second.provider) == ("openai", "ollama")


async def test_the_fallback_has_attempts_of_its_own() -> None:
    async with agent([WORDS] * 3, FORCED, fallback=[WORDS, FOUND, DONE]) as mine:
        result = await mine.chat()
    assert result.tool_calls == ("search_books",)
    assert [last_words(body).startswith(ASKED) for body in mine.second.bodies] == [True] * 3


async def test_a_provider_that_fails_for_good_leads_to_the_fallback_too() -> None:
    async with agent([refuse(401, "no such key")], FORCED, fallback=[FOUND, DONE]) as mine:
        result = await mine.chat()
    assert (result.provider, result.text) == ("openai", "There are two books on bees.")


@pytest.mark.proves("R003-3", "R003-15", "X-10", "X-17")
async def test_error_says_that_no_tool_was_called_after_so_many_attempts() -> None:
    async with agent([WORDS] * 3, {**FORCED, "onToolNotCalled": "error"}) as mine:
        with pytest.raises(ToolNotCalledError, match="no tool was called in 3 attempts"):
            await mine.chat()


@pytest.mark.proves("X-10")
async def test_a_single_attempt_lets_the_policy_decide_at_once() -> None:
    async with agent([WORDS], {"forceToolUse": True, "maxRetries": 1, "onToolNotCalled": "error"}) as mine:
        with pytest.raises(ToolNotCalledError):
            await mine.chat()
    assert mine.heard == [ASKED]


@pytest.mark.proves("R003-3", "R003-16", "X-17")
@pytest.mark.parametrize(("policy", "warned"), [("warn", True), ("allow", False), ("retry", False)])
async def test_the_last_answer_is_returned_with_a_warning_or_without(policy: str, warned: bool) -> None:
    async with agent([WORDS] * 3, {**FORCED, "onToolNotCalled": policy}) as mine:
        with capture_logs() as logs:
            result = await mine.chat()
    assert result.text == "Bees are kept by many people."
    assert ("answered_without_tool" in [line["event"] for line in logs]) is warned


# ---------------------------------------------------------------- where nothing is forced


@pytest.mark.proves("X-33")
async def test_without_any_tool_it_is_plain_chat() -> None:
    async with agent([WORDS], FORCED, sources=[]) as mine:
        assert (await mine.chat()).text == "Bees are kept by many people."
    assert "tools" not in mine.upstream.bodies[0]
    assert mine.heard == [ASKED]


@pytest.mark.proves("X-33")
async def test_after_a_tool_ran_words_are_an_answer() -> None:
    async with agent([FOUND, WORDS], FORCED) as mine:
        result = await mine.chat()
    assert result.text == "Bees are kept by many people."
    assert mine.heard == [ASKED, ASKED]


@pytest.mark.proves("X-33", "X-8")
async def test_five_rounds_with_tools_are_followed_by_one_of_words_that_nothing_forces() -> None:
    searches = [call("search_books", {"title": str(number)}) for number in range(5)]
    async with agent([*searches, WORDS], FORCED) as mine:
        result = await mine.chat()
    assert result.text == "Bees are kept by many people."
    assert ["tools" in body for body in mine.upstream.bodies] == [True] * 5 + [False]
    assert all("tool_choice" not in body for body in mine.upstream.bodies)


# ---------------------------------------------------------------- the cache


@pytest.mark.proves("R003-8", "R003-21", "R003-22", "R003-30")
async def test_the_same_chat_twice_runs_the_tool_once() -> None:
    library = Library()
    config = {**FORCED, "cacheResults": {"enabled": True, "ttl": 60000}}
    async with agent([FOUND, DONE, FOUND, DONE], config, sources=[library.search()]) as mine:
        first, second = await mine.chat(), await mine.chat()
    assert len(library.runs) == 1
    assert results_of(mine.upstream.bodies[1]) == results_of(mine.upstream.bodies[3])
    assert (first.state.calls, second.state.calls) == (1, 1)


@pytest.mark.proves("R003-23")
async def test_a_kept_result_is_gone_after_its_ttl() -> None:
    library, now = Library(), [1_000.0]
    config = {**FORCED, "cacheResults": {"ttl": 60000}}
    store = MemoryCache(clock=lambda: now[0])
    async with agent([FOUND, DONE] * 3, config, sources=[library.search()], cache=store) as mine:
        await mine.chat()
        now[0] += 59.0
        await mine.chat()
        assert len(library.runs) == 1
        now[0] += 2.0
        await mine.chat()
    assert len(library.runs) == 2


@pytest.mark.proves("R003-21", "R003-24")
async def test_the_order_of_keys_is_one_call_and_another_nested_value_is_another() -> None:
    library = Library()
    arguments = [
        {"title": "bees", "where": {"hall": 1, "shelf": {"row": 2}}},
        {"where": {"shelf": {"row": 2}, "hall": 1}, "title": "bees"},
        {"title": "bees", "where": {"hall": 1, "shelf": {"row": 3}}},
    ]
    script = [step for each in arguments for step in (call("search_books", each), DONE)]
    async with agent(script, {**FORCED, "cacheResults": {}}, sources=[library.search()]) as mine:
        for _ in arguments:
            await mine.chat()
    assert library.runs == [arguments[0], arguments[2]]


@pytest.mark.proves("R003-8")
async def test_a_key_of_ones_own_says_which_calls_are_equal() -> None:
    library = Library()
    config = {**FORCED, "cacheResults": {"key": lambda name, params: f"{name}:{params['title'].lower()}"}}
    script = [call("search_books", {"title": "Bees"}), DONE, call("search_books", {"title": "bees"}), DONE]
    async with agent(script, config, sources=[library.search()]) as mine:
        await mine.chat()
        await mine.chat()
    assert [run["title"] for run in library.runs] == ["Bees"]


@pytest.mark.proves("R003-23")
@pytest.mark.parametrize("result", [None, False, "", []])
async def test_a_result_of_nothing_is_a_hit(result: Any) -> None:
    library = Library(result)
    async with agent([FOUND, DONE] * 2, {**FORCED, "cacheResults": {}}, sources=[library.search()]) as mine:
        await mine.chat()
        await mine.chat()
    assert len(library.runs) == 1


@pytest.mark.proves("R003-23")
async def test_a_failure_is_not_kept() -> None:
    library = Library(OSError("the shelf is on fire"), ["Bees"])
    config = {"forceToolUse": True, "maxRetries": 0, "cacheResults": {}}
    async with agent([FOUND, DONE] * 2, config, sources=[library.search()]) as mine:
        await mine.chat()
        await mine.chat()
    assert len(library.runs) == 2
    assert results_of(mine.upstream.bodies[3]) == ['["Bees"]']


async def test_switched_off_every_call_runs() -> None:
    library = Library()
    config = {**FORCED, "cacheResults": {"enabled": False}}
    async with agent([FOUND, DONE] * 2, config, sources=[library.search()]) as mine:
        await mine.chat()
        await mine.chat()
    assert len(library.runs) == 2


# ---------------------------------------------------------------- time, failures, answers


@pytest.mark.proves("R003-5", "R003-25", "X-28")
async def test_a_call_longer_than_the_timeout_fails_whatever_the_tool_asks_for() -> None:
    @tool(timeout=60)
    async def search_books() -> str:
        """Find books, for ever."""
        await asyncio.Event().wait()
        return ""

    async with agent([FOUND, DONE], {"forceToolUse": True, "toolTimeout": 20}, sources=[search_books]) as mine:
        result = await mine.chat()
    (content,) = results_of(mine.upstream.bodies[1])
    assert "within 0.02 s" in content
    assert result.text == "There are two books on bees."


@pytest.mark.proves("R003-5")
def test_without_a_timeout_of_its_own_a_tool_has_thirty_seconds() -> None:
    assert Limits().tool_seconds == 30.0


@pytest.mark.proves("R003-26")
async def test_a_handler_that_fails_is_run_again_where_that_is_safe() -> None:
    reads, writes = Library(OSError("busy"), ["Bees"]), Library(OSError("busy"), ["Bees"])
    sources = [reads.search(), writes.search("order_book", read_only=False)]
    both = calls(("search_books", {}), ("order_book", {}))
    async with agent([both, DONE], {"forceToolUse": True, "maxRetries": 1}, sources=sources) as mine:
        await mine.chat()
    good, failed = results_of(mine.upstream.bodies[1])
    assert (len(reads.runs), len(writes.runs)) == (2, 1)
    assert good == '["Bees"]'
    assert "busy" in failed


@pytest.mark.proves("R003-7")
async def test_an_answer_that_is_not_what_the_tool_promised_is_a_failure() -> None:
    promised = {"type": "object", "properties": {"titles": {"type": "array"}}, "required": ["titles"]}
    library = Library({"title": "Bees"})
    sources = [library.search(output_schema=promised, read_only=False)]
    for validate, message in ((True, "not what it promises"), (False, '{"title":"Bees"}')):
        config = {**FORCED, "validateToolResponse": validate}
        async with agent([FOUND, DONE], config, sources=sources) as mine:
            await mine.chat()
        assert message in results_of(mine.upstream.bodies[1])[0]


@pytest.mark.proves("X-12")
async def test_attempts_of_the_model_and_tries_of_a_tool_are_two_settings() -> None:
    library = Library(OSError("busy"))
    preset = replace(PRESETS["forced"], limits=Limits(forced_attempts=2, tool_retries=1))
    async with agent([WORDS, FOUND, DONE], sources=[library.search()], preset=preset) as mine:
        await mine.chat()
    assert len(library.runs) == 2
    assert "[tried 2 times]" in results_of(mine.upstream.bodies[2])[0]
    async with agent([WORDS, WORDS], preset=preset) as mine:
        await mine.chat()
    assert len(mine.heard) == 2


# ---------------------------------------------------------------- what is said at start, and while it runs


@pytest.mark.proves("R003-9")
async def test_what_is_probably_not_meant_is_warned_about_at_start() -> None:
    with capture_logs() as logs:
        async with agent([], {"maxRetries": 11, "toolTimeout": 500}):
            pass
    warnings = [line["warning"] for line in logs if line["log_level"] == "warning"]
    assert ["maxRetries is 11" in warnings[0], "toolTimeout is 500 ms" in warnings[1]] == [True, True]


@pytest.mark.proves("X-28")
async def test_a_tool_whose_own_timeout_is_longer_is_warned_about_at_start() -> None:
    slow = Library().search(timeout=120.0)
    with capture_logs() as logs:
        async with agent([], {"toolTimeout": 5000}, sources=[slow]):
            pass
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert (line["tools"], line["tool_timeout"]) == (["search_books"], 5.0)


@pytest.mark.proves("R003-10", "R003-28")
async def test_the_log_tells_the_whole_story() -> None:
    structlog.reset_defaults()
    library = Library()
    config = {**FORCED, "maxRetries": 2, "cacheResults": {}}
    sinks = [StructlogSink()]
    async with agent([WORDS] * 2, config, fallback=[FOUND, DONE], sources=[library.search()], sinks=sinks) as mine:
        with capture_logs() as logs:
            await mine.chat()

    def lines(event: str) -> list[dict[str, Any]]:
        return [dict(line) for line in logs if line["event"] == event]

    attempts = lines("forced_attempt")
    assert [(line["provider"], line["attempt"], line["log_level"]) for line in attempts] == [
        ("ollama", 1, "debug"),
        ("ollama", 2, "debug"),
        ("openai", 1, "debug"),
    ]
    assert [(line["attempt"], line["log_level"]) for line in lines("no_tool_called")] == [
        (1, "warning"),
        (2, "warning"),
    ]
    (switch,) = lines("fallback_asked")
    assert (switch["provider"], switch["model"], switch["log_level"]) == ("openai", "gpt-4-turbo-preview", "info")
    call_line, ran = lines("tool_called")
    assert (call_line["tools"], call_line["provider"], call_line["log_level"]) == (["search_books"], "openai", "info")
    assert (ran["tool"], ran["outcome"], ran["log_level"]) == ("search_books", "ok", "info")
    assert ran["ms"] >= 0
    (missed,) = lines("cache_miss")
    assert (missed["tool"], missed["log_level"]) == ("search_books", "debug")
    assert missed["key"]


@pytest.mark.proves("R003-28")
async def test_the_log_tells_that_the_attempts_were_in_vain() -> None:
    structlog.reset_defaults()
    async with agent([WORDS] * 2, {**FORCED, "maxRetries": 2}) as mine:
        with capture_logs() as logs:
            await mine.chat()
    (line,) = [line for line in logs if line["event"] == "attempts_exhausted"]
    assert (line["log_level"], line["provider"], line["attempts"]) == ("warning", "ollama", 2)


# ---------------------------------------------------------------- the page


@pytest.mark.proves("R003-31", "R003-32", "R003-33")
def test_the_page_has_a_quick_start_every_option_four_practices_and_the_way_there() -> None:
    """Its code is run by tests/test_docs.py."""
    page = (ROOT / "docs" / "forcing.md").read_text()
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert '{"forceToolUse": True, "maxRetries": 3}' in sections["Quick start"]
    for option in FIELDS:
        assert f"`{option}`" in sections["Options"]
    assert len(re.findall(r"^\d\. ", sections["Four practices"], re.MULTILINE)) == 4
    assert "tool_config" in sections["From a plain agent"]


FIELDS = (
    *("forceToolUse", "onToolNotCalled", "maxRetries", "toolTimeout", "fallbackProvider", "validateToolResponse"),
    *("cacheResults", "apiKey", "temperature", "maxTokens", "enabled", "ttl", "key", "maxSize"),
    *("force_tool_use", "on_tool_not_called", "max_retries", "tool_timeout", "fallback_provider"),
    *("validate_tool_response", "cache_results", "api_key", "max_tokens", "max_size"),
)
