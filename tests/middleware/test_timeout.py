"""A call that takes too long is answered for."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from toolcaddie.middleware.timeout import Timeout
from toolcaddie.ports import Invocation
from toolcaddie.tool_types import ToolResult

pytestmark = pytest.mark.anyio

Make = Callable[..., Invocation]


async def test_a_call_in_time_is_left_alone(invocation: Make) -> None:
    who = contextvars.ContextVar("who", default="nobody")
    who.set("ada")

    async def quick(_: Invocation) -> ToolResult:
        return ToolResult(content=who.get())

    assert (await Timeout()(invocation(), quick)).content == "ada"


async def test_a_hanging_call_is_cancelled_and_named_with_its_seconds(invocation: Make) -> None:
    ended = asyncio.Event()

    async def hang(_: Invocation) -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    result = await Timeout()(invocation(0.01), hang)
    assert (result.is_error, result.error) == (True, "timeout")
    assert result.content.startswith("freeze gave no answer within 0.01 s and was given up")
    assert "whether it took effect is not known" in result.content
    assert ended.is_set()
    assert "took effect" not in (await Timeout()(invocation(0.01, read_only=True), hang)).content


async def test_a_call_that_swallows_its_cancellation_is_left_behind(invocation: Make) -> None:
    release = asyncio.Event()

    async def stubborn(_: Invocation) -> ToolResult:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return ToolResult(content="too late")

    timeout = Timeout(grace=0.01)
    with capture_logs() as logs:
        assert (await timeout(invocation(0.01), stubborn)).error == "timeout"
    assert [(entry["event"], entry["tool"]) for entry in logs] == [("tool ignores its cancellation", "freeze")]
    release.set()


async def test_an_answer_after_the_cancellation_comes_too_late(invocation: Make) -> None:
    async def late(_: Invocation) -> ToolResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ToolResult(content="too late")
        raise AssertionError

    assert (await Timeout()(invocation(0.01), late)).error == "timeout"


async def test_the_tools_own_timeout_error_is_not_ours(invocation: Make) -> None:
    async def raises(_: Invocation) -> ToolResult:
        raise TimeoutError("upstream")

    with pytest.raises(TimeoutError, match="upstream"):
        await Timeout()(invocation(), raises)


async def test_cancelling_the_caller_cancels_the_call(invocation: Make) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hang(_: Invocation) -> ToolResult:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    task = asyncio.ensure_future(Timeout()(invocation(), hang))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
