"""`validateToolResponse` and the words of an agent's log, through whole agents over real scripted servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from toolcaddie import Category, RunContext, Runtime, Tool, ToolAnnotations, ToolResult, tool
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import LimitReached
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.telemetry import PrometheusSink, StructlogSink
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"members": {"type": "array", "items": {"type": "object", "required": ["id"]}}},
    "required": ["members"],
}
GOOD = '{"members":[{"id":7}]}'
WORDS, FOUND, DONE = say("Bees are lovely."), call("find"), say("done")


class Desk:
    """A source of somebody else's, which answers whatever it is told to."""

    name, revision = "desk", 0

    def __init__(self, *answers: Any, schema: Any = SCHEMA, read_only: bool = True) -> None:
        self.answers = list(answers)
        self.runs = 0
        self._tool = Tool(
            name="find", output_schema=schema, source="desk", annotations=ToolAnnotations(read_only=read_only)
        )

    def tools(self) -> Sequence[Tool]:
        return [self._tool]

    def categories(self) -> Sequence[Category]:
        return ()

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        self.runs += 1
        answer = self.answers[min(self.runs, len(self.answers)) - 1]
        return ToolResult(content=answer) if isinstance(answer, str) else answer  # type: ignore[no-any-return]


async def result_text(desk: Desk, config: Mapping[str, Any] | None = None, **options: Any) -> str:
    """Returns the result of the one call as the model reads it."""
    async with ScriptedUpstream([FOUND, DONE]) as upstream:
        config = {"validateToolResponse": True, "maxRetries": 1, **(config or {})}
        provider = OpenAIChat(upstream.base_url, "test-key")
        async with Runtime(
            provider=provider, model="m", sources=desk, tool_config=config, **{"policy": AllowAll(), **options}
        ) as runtime:
            await runtime.run("find John")
    (result,) = (message["content"] for message in upstream.bodies[1]["messages"] if message["role"] == "tool")
    return str(result)


@pytest.mark.proves("A-12")
@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (None, "its source gave a NoneType, not a ToolResult"),
        ({"members": []}, "its source gave a dict, not a ToolResult"),
        (ToolResult(content=7), "its content is a int, not text"),  # type: ignore[arg-type]
        (ToolResult(content="", structured={"members": object()}), "not JSON"),
        ('{"members":3}', "members: "),
        ("{}", '"members" is a required property'),
        ('{"members":[{}]}', "members.0"),
        ("Everything is fine.", "its output schema asks for JSON"),
        ("ab\ud800", "not valid Unicode at character 2"),
        ('{"members":[{"id":"' + "x" * 8_000_001 + '"}]}', "bytes, and results have at most 8,000,000"),
    ],
    ids=["no result", "a dict", "a number", "an object", "type", "missing", "nested", "words", "encoding", "size"],
)
async def test_shape_schema_encoding_and_size_are_checked_retried_and_then_reported(answer: Any, wrong: str) -> None:
    structlog.reset_defaults()
    desk, registry = Desk(answer), CollectorRegistry()
    with capture_logs() as logs:
        read = await result_text(desk, {"maxRetries": 1}, sinks=[PrometheusSink(registry), StructlogSink()])
    assert wrong in read
    assert read.endswith("[tried 2 times]")
    assert desk.runs == 2
    outcomes = [line["outcome"] for line in logs if line["event"] == "tool_called"]
    assert outcomes == ["failed"]
    assert 'toolcaddie_tool_calls_total{outcome="failed",tool="find"} 1.0' in generate_latest(registry).decode()


@pytest.mark.proves("A-12")
async def test_an_answer_that_is_right_the_second_time_is_the_answer() -> None:
    desk = Desk("{}", GOOD)
    assert await result_text(desk) == GOOD
    assert desk.runs == 2


@pytest.mark.proves("A-12")
async def test_a_write_that_answers_wrongly_runs_once_and_the_model_is_told_that_it_ran() -> None:
    desk = Desk("{}", GOOD, read_only=False)
    assert "It did run" in await result_text(desk)
    assert desk.runs == 1


@pytest.mark.proves("A-12")
async def test_a_long_result_is_checked_whole_and_cut_afterwards() -> None:
    long = '{"members":[{"id":"' + "x" * 200_000 + '"}]}'
    assert "cut here" in await result_text(Desk(long))
    wrong = '{"members":[{"no":"' + "x" * 200_000 + '"}]}'
    assert "members.0" in await result_text(Desk(wrong))


@pytest.mark.proves("R003-7")
async def test_tools_whose_results_cannot_be_checked_are_named_once_at_start() -> None:
    @tool(read_only=True)
    def search_books(title: str) -> list[str]:
        """Find books."""
        return []

    @tool(read_only=True, output_schema=True)
    def count_books() -> int:
        """Count them."""
        return 7

    structlog.reset_defaults()
    with capture_logs() as logs:
        runtime = Runtime(
            provider=ScriptedProvider([call("search_books", {"title": "x"}), say("done")] * 2),
            sources=[search_books, count_books],
            tool_config={"validateToolResponse": True},
        )
        await runtime.run("hi")
        await runtime.run("hi")
    (line,) = [line for line in logs if line["event"] == "results_without_schema"]
    assert (line["tools"], line["count"], line["log_level"]) == (["search_books"], 1, "warning")
    assert "output_schema" in line["hint"]


# ---------------------------------------------------------------- the words of the log


FORCED = {"forceToolUse": True, "maxRetries": 2}


def search() -> Any:
    @tool(name="find", read_only=True)
    def find() -> str:
        """Find books."""
        return "The Hive"

    return find


@pytest.mark.proves("R003-28")
async def test_exhausted_attempts_are_said_before_the_fallback_is_asked() -> None:
    structlog.reset_defaults()
    async with ScriptedUpstream([FOUND, DONE]) as second:
        fallback = {"provider": "openai", "model": "m", "apiKey": "test-key", "baseUrl": second.base_url}
        runtime = Runtime(
            provider=ScriptedProvider([WORDS, WORDS], name="ollama"),
            sources=search(),
            tool_config={**FORCED, "fallbackProvider": fallback},
            sinks=[StructlogSink()],
        )
        with capture_logs() as logs:
            async with runtime:
                await runtime.run("is there a book on bees?")
    events = [line["event"] for line in logs if line["event"] in ("attempts_exhausted", "fallback_asked")]
    assert events == ["attempts_exhausted", "fallback_asked"]
    (line,) = [line for line in logs if line["event"] == "attempts_exhausted"]
    assert (line["provider"], line["attempts"], line["then"]) == ("ollama", 2, "fallback")
    assert "limit_reached" not in [line["event"] for line in logs]


@pytest.mark.proves("R003-28")
@pytest.mark.parametrize(
    ("script", "reached"), [([WORDS, FOUND, DONE], []), ([WORDS, WORDS], ["no tool was called in 2 attempts"])]
)
async def test_a_limit_is_reached_where_no_tool_was_called_and_not_before(script: Any, reached: list[str]) -> None:
    structlog.reset_defaults()
    runtime = Runtime(provider=ScriptedProvider(script), sources=search(), tool_config=FORCED, sinks=[StructlogSink()])
    with capture_logs() as logs:
        events = [event async for event in runtime.stream("is there a book on bees?")]
    assert [event.detail for event in events if isinstance(event, LimitReached)] == reached
    assert [line["detail"] for line in logs if line["event"] == "limit_reached"] == reached


# ---------------------------------------------------------------- a fallback without a model


@pytest.mark.proves("R003-6")
async def test_a_fallback_may_name_a_provider_alone() -> None:
    """The example of the requirement itself: `fallbackProvider: { provider: 'openai' }`, and `response.provider` is openai."""
    async with ScriptedUpstream([FOUND, DONE]) as second:
        fallback = {"provider": "openai", "apiKey": "test-key", "baseUrl": second.base_url}
        runtime = Runtime(
            provider=ScriptedProvider([WORDS, WORDS], name="ollama"),
            sources=search(),
            tool_config={**FORCED, "fallbackProvider": fallback},
        )
        async with runtime:
            result = await runtime.run("is there a book on bees?")
    assert (result.provider, result.tool_calls) == ("openai", ("find",))
    assert {body["model"] for body in second.bodies} == {"gpt-5-mini"}


def test_a_fallback_whose_provider_has_no_default_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="'vllm' has no default model; name one"):
        Runtime(
            provider=ScriptedProvider([]), tool_config={"forceToolUse": True, "fallbackProvider": {"provider": "vllm"}}
        )
