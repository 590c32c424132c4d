"""Source 003, tools that must be used: demands that were proved too weakly."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from benchmarks import escalation, tool_config_goals
from tests.test_tool_config_agents import ASKED, DONE, FORCED, FOUND, WORDS, Library, agent, results_of
from toolcaddie import tool
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.telemetry import PrometheusSink, StructlogSink
from toolcaddie.testing import call, refuse

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]

# ---------------------------------------------------------------- validation

BOOKS = {
    "type": "object",
    "properties": {
        "books": {
            "type": "array",
            "items": {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]},
        }
    },
    "required": ["books"],
}
GOOD, BAD = {"books": [{"year": 1901}]}, {"books": [{"year": 1901}, {"year": "long ago"}]}


@pytest.mark.proves("R003-7")
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_an_answer_is_validated_to_its_last_field_and_the_model_reads_what_is_wrong(stream: bool) -> None:
    library = Library(BAD, BAD, GOOD)
    sources = [library.search(output_schema=BOOKS)]
    config = {**FORCED, "maxRetries": 1, "validateToolResponse": True}
    async with agent([FOUND, FOUND, DONE], config, sources=sources) as mine:
        await (mine.streamed() if stream else mine.chat())
    first, second = results_of(mine.upstream.bodies[2])
    assert 'books.1.year: "long ago" is not of type "integer"' in first
    assert "1901" not in first, "what does not fit is not handed on"
    assert second == '{"books":[{"year":1901}]}'


@pytest.mark.proves("R003-7")
async def test_an_answer_that_fails_validation_is_asked_of_the_tool_again_where_that_is_safe() -> None:
    reads, writes = Library(BAD, GOOD), Library(BAD, GOOD)
    sources = [reads.search(output_schema=BOOKS), writes.search("order", output_schema=BOOKS, read_only=False)]
    config = {"forceToolUse": True, "maxRetries": 1, "validateToolResponse": True}
    both = call("search_books", {}), call("order", {})
    async with agent([*both, DONE], config, sources=sources) as mine:
        await mine.chat()
    read_result, ordered = results_of(mine.upstream.bodies[2])
    assert (len(reads.runs), len(writes.runs)) == (2, 1)
    assert read_result == '{"books":[{"year":1901}]}'
    assert "It did run" in ordered


@pytest.mark.proves("R003-7")
async def test_unless_it_is_switched_on_an_answer_goes_through_as_it_is() -> None:
    for config in (FORCED, {**FORCED, "validateToolResponse": False}):
        async with agent([FOUND, DONE], config, sources=[Library(BAD).search(output_schema=BOOKS)]) as mine:
            await mine.chat()
        assert "long ago" in results_of(mine.upstream.bodies[1])[0]


@pytest.mark.proves("R003-7")
@pytest.mark.parametrize("value", ["yes", 1, []])
def test_validation_is_on_or_off_and_nothing_else(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"validateToolResponse.*true or false"):
        ToolConfig.of({"validateToolResponse": value})


# ---------------------------------------------------------------- the log


def lines_of(logs: list[Any], event: str) -> list[dict[str, Any]]:
    return [dict(line) for line in logs if line["event"] == event]


@pytest.mark.proves("R003-28")
async def test_the_log_says_in_order_what_was_tried_missed_used_up_and_done() -> None:
    structlog.reset_defaults()
    config = {**FORCED, "maxRetries": 2}
    async with agent([WORDS] * 2, config, fallback=[FOUND, DONE], sinks=[StructlogSink()]) as mine:
        with capture_logs() as logs:
            await mine.chat()
    story = [
        (line["event"], line["log_level"], line.get("provider") or line.get("tool"))
        for line in logs
        if line["event"]
        in ("forced_attempt", "no_tool_called", "attempts_exhausted", "fallback_asked", "tool_called", "run_finished")
    ]
    assert story == [
        ("forced_attempt", "debug", "ollama"),
        ("no_tool_called", "warning", "ollama"),
        ("forced_attempt", "debug", "ollama"),
        ("no_tool_called", "warning", "ollama"),
        ("attempts_exhausted", "warning", "ollama"),
        ("fallback_asked", "info", "openai"),
        ("forced_attempt", "debug", "openai"),
        ("tool_called", "info", "openai"),
        ("tool_called", "info", "search_books"),
        ("run_finished", "info", None),
    ]
    (exhausted,) = lines_of(logs, "attempts_exhausted")
    assert (exhausted["attempts"], exhausted["then"]) == (2, "fallback")
    success = lines_of(logs, "tool_called")
    assert success[0]["tools"] == ["search_books"]
    assert success[1]["outcome"] == "ok"


@pytest.mark.proves("R003-28")
async def test_a_provider_that_broke_off_has_not_used_its_attempts_up() -> None:
    structlog.reset_defaults()
    async with agent([refuse(401, "no such key")], FORCED, fallback=[FOUND, DONE]) as mine:
        with capture_logs() as logs:
            await mine.chat()
    assert lines_of(logs, "attempts_exhausted") == []
    assert [line["log_level"] for line in lines_of(logs, "forced_provider_failed")] == ["warning"]


@pytest.mark.proves("R003-28")
async def test_the_log_has_the_milliseconds_of_a_call_and_the_key_of_what_is_kept() -> None:
    structlog.reset_defaults()

    @tool(read_only=True)
    async def search_books(title: str = "") -> str:
        """Find books, slowly."""
        await asyncio.sleep(0.03)
        return title

    script = [step for title in ("bees", "bees", "wasps") for step in (asked_for(title), DONE)]
    config = {**FORCED, "cacheResults": {}}
    async with agent(script, config, sources=[search_books], sinks=[StructlogSink()]) as mine:
        with capture_logs() as logs:
            for _ in range(3):
                await mine.chat()
    ran = [line for line in lines_of(logs, "tool_called") if "outcome" in line]
    assert [line["ms"] >= 30 for line in ran] == [True, False, True]
    assert [line.get("cached", False) for line in ran] == [False, True, False]
    first, other = lines_of(logs, "cache_miss")
    (hit,) = lines_of(logs, "cache_hit")
    assert first["key"] == hit["key"] != other["key"]
    assert {line["log_level"] for line in (first, other, hit)} == {"debug"}


def asked_for(title: str) -> Any:
    return call("search_books", {"title": title})


# ---------------------------------------------------------------- goals, deliveries


@pytest.mark.proves("R003-29")
async def test_the_four_goals_are_measured_and_met_where_there_is_as_much_to_gain() -> None:
    """+80 % calls, -40 % latency, -30 % cost; the fourth, how little a developer has to write, is counted in settings."""
    forcing = await tool_config_goals.forcing(12, escalation.KINDS[1], 0.5)
    cache = await tool_config_goals.caching(10, 0.75, tool_seconds=0.2, model_seconds=0.0)
    retries = await tool_config_goals.retrying(12, 0.9, 0.3)
    assert (tool_config_goals.CALL_GOAL, tool_config_goals.LATENCY_GOAL, tool_config_goals.COST_GOAL) == (0.8, 0.4, 0.3)
    assert forcing.gain >= tool_config_goals.CALL_GOAL
    assert cache.saved >= tool_config_goals.LATENCY_GOAL
    assert retries.saved >= tool_config_goals.COST_GOAL
    async with agent([WORDS, FOUND, DONE], {"forceToolUse": True}) as mine:
        assert (await mine.chat()).tool_calls == ("search_books",), "one setting is enough"
    page = (ROOT / "docs" / "performance.md").read_text()
    goals = page.partition("### The gain of forced use, cache and retries")[2].partition("\n### ")[0]
    for word in ("80 % more successful calls", "40 % less latency", "30 % less cost", "met", "missed"):
        assert word in goals


@pytest.mark.proves("R003-31")
async def test_retries_fallback_cache_log_and_metrics_work_together_in_one_agent() -> None:
    structlog.reset_defaults()
    registry = CollectorRegistry()
    library = Library()
    config = {**FORCED, "maxRetries": 2, "cacheResults": {}}
    fallback = [FOUND, DONE, FOUND, DONE]
    sinks = [PrometheusSink(registry), StructlogSink()]
    async with agent([WORDS] * 4, config, fallback=fallback, sources=[library.search()], sinks=sinks) as mine:
        with capture_logs() as logs:
            first, second = await mine.chat(), await mine.chat()
    assert (first.provider, second.provider) == ("openai", "openai")
    assert [text == ASKED for text in mine.heard] == [True, False, True, False]
    assert len(library.runs) == 1
    assert lines_of(logs, "attempts_exhausted")
    assert lines_of(logs, "cache_hit")
    counted = generate_latest(registry).decode()

    def count(name: str, **labels: str) -> float:
        pattern = re.compile(rf"^{name}\{{(.*)\}} (.+)$", re.MULTILINE)
        rows = [(row[1], float(row[2])) for row in pattern.finditer(counted)]
        return sum(
            value for text, value in rows if all(f'{key}="{expected}"' in text for key, expected in labels.items())
        )

    assert count("toolcaddie_model_attempts_total", provider="ollama", outcome="not_called") == 4
    assert count("toolcaddie_model_attempts_total", provider="openai", outcome="answered") == 2
    assert count("toolcaddie_tool_results_cached_total", tool="search_books") == 1


@pytest.mark.proves("R003-31")
def test_the_page_has_runnable_examples_and_every_step_from_a_plain_agent() -> None:
    """tests/test_docs.py runs the examples."""
    page = (ROOT / "docs" / "forcing.md").read_text()
    assert len(re.findall(r"^```python$", page, re.MULTILINE)) >= 2
    way = page.partition("## From a plain agent")[2].partition("\n## ")[0]
    assert [int(number) for number in re.findall(r"^(\d)\. ", way, re.MULTILINE)] == [1, 2, 3, 4, 5]
    for step in ("sources=[", '"forceToolUse": True', "read_only=True", "fallbackProvider", "Take away"):
        assert step in way
