"""A failed call is tried again only if that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.control.results.conftest import Clock
from toolcaddie import Runtime, tool
from toolcaddie.control.results.retry import Retry
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.ports import Invocation
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

Make = Callable[..., Invocation]


class Flaky:
    """Answers with these results in turn, the last one again and again."""

    def __init__(self, *results: ToolResult) -> None:
        self._results = results
        self.calls = 0

    async def __call__(self, _: Invocation) -> ToolResult:
        self.calls += 1
        return self._results[min(self.calls, len(self._results)) - 1]


class Waits:
    """Sleeping that only moves the clock."""

    def __init__(self, clock: Clock) -> None:
        self.seconds: list[float] = []
        self._clock = clock

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._clock.now += seconds


@pytest.fixture
def waits(clock: Clock) -> Waits:
    return Waits(clock)


@pytest.fixture
def retry(clock: Clock, waits: Waits) -> Callable[..., Retry]:
    def make(max_retries: int = 3, *, chance: float = 0.0, **options: Any) -> Retry:
        return Retry(max_retries, sleep=waits, chance=lambda: chance, clock=clock, **options)

    return make


OK = ToolResult(content="ok")


@pytest.mark.proves("R003-26")
async def test_a_tool_that_fails_twice_and_is_safe_to_repeat_answers_in_the_end() -> None:
    tries: list[int] = []

    @tool(read_only=True)
    def weather(city: str) -> str:
        """The weather."""
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("no answer")
        return f"sunny in {city}"

    provider = ScriptedProvider([call("weather", {"city": "Bonn"}), say("done")])
    runtime = Runtime(provider=provider, sources=[weather], middleware=[Retry(sleep=lambda _: asyncio.sleep(0))])
    await runtime.run("the weather in Bonn?")
    assert len(tries) == 3
    assert provider.requests[-1].messages[-1].content == "sunny in Bonn"


@pytest.mark.proves("R003-26")
async def test_waits_double_from_100_ms_to_5_s_with_up_to_30_percent_on_top(
    invocation: Make, retry: Callable[..., Retry], waits: Waits
) -> None:
    await retry(8)(invocation(read_only=True), Flaky(failed("no")))
    assert waits.seconds == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    waits.seconds.clear()
    await retry(7, chance=1.0)(invocation(read_only=True), Flaky(failed("no")))
    assert waits.seconds == pytest.approx([0.13, 0.26, 0.52, 1.04, 2.08, 4.16, 6.5])


async def test_the_model_reads_how_often_it_was_tried(invocation: Make, retry: Callable[..., Retry]) -> None:
    flaky = Flaky(failed("no answer"), failed("too slow", "timeout"))
    result = await retry(2)(invocation(read_only=True), flaky)
    assert (result.content, result.error, flaky.calls) == ("too slow\n[tried 3 times]", "timeout", 3)
    once = await retry(0)(invocation(read_only=True), Flaky(failed("no answer")))
    assert once.content == "no answer"


@pytest.mark.parametrize("kind", ["invalid_arguments", "denied", "revoked", "unknown_outcome"])
async def test_an_error_that_would_stay_the_same_is_not_retried(
    kind: Any, invocation: Make, retry: Callable[..., Retry]
) -> None:
    flaky = Flaky(failed("no", kind))
    assert (await retry()(invocation(read_only=True), flaky)).content == "no"
    assert flaky.calls == 1
    later = Flaky(failed("slow", "timeout"), failed("no", kind))
    assert (await retry()(invocation(read_only=True), later)).content == "no\n[tried 2 times]"
    assert later.calls == 2


@pytest.mark.parametrize(
    ("tool", "arguments", "tries"),
    [
        (Tool(name="a"), {}, 1),
        (Tool(name="a", annotations=ToolAnnotations(read_only=False, destructive=False)), {}, 1),
        (Tool(name="a", annotations=ToolAnnotations(read_only=True)), {}, 2),
        (Tool(name="a", annotations=ToolAnnotations(idempotent=True)), {}, 2),
        (Tool(name="a", idempotency_key="key"), {"key": "k1"}, 2),
        (Tool(name="a", idempotency_key="key"), {"key": ""}, 1),
        (Tool(name="a", idempotency_key="key"), {}, 1),
    ],
)
async def test_only_a_call_that_may_run_twice_is_repeated(
    tool: Tool, arguments: dict[str, Any], tries: int, invocation: Make, retry: Callable[..., Retry]
) -> None:
    flaky = Flaky(failed("no"), OK)
    await retry()(invocation(tool=tool, arguments=arguments), flaky)
    assert flaky.calls == tries


async def test_no_try_begins_after_the_time_that_is_left(
    invocation: Make, retry: Callable[..., Retry], waits: Waits
) -> None:
    result = await retry(10, within=1.0)(invocation(read_only=True), Flaky(failed("no")))
    assert waits.seconds == pytest.approx([0.1, 0.2, 0.4])
    assert result.content == "no\n[tried 4 times]"


async def test_a_run_that_is_over_ends_the_waiting(invocation: Make) -> None:
    flaky = Flaky(failed("no"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Retry(chance=lambda: 0.0)(invocation(read_only=True), flaky)
    assert flaky.calls == 1


def test_fewer_than_no_retries_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_retries"):
        Retry(-1)
