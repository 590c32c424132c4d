"""A call that takes too long is answered for."""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from toolcaddie import Runtime, tool
from toolcaddie.control.results.timeout import Timeout
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import ToolResult
from toolcaddie.guards.processes import run, run_blocking
from toolcaddie.ports import Invocation
from toolcaddie.testing import ScriptedProvider, call, say

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
    assert [(entry["event"], entry["tool"]) for entry in logs] == [("cancellation_ignored", "freeze")]
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


@pytest.mark.proves("X-28")
@pytest.mark.parametrize(("own", "most", "expected"), [(30.0, 0.01, 0.01), (0.01, 30.0, 0.01), (0.01, None, 0.01)])
async def test_the_shorter_of_the_tools_own_time_and_the_upper_bound_counts(
    own: float, most: float | None, expected: float, invocation: Make
) -> None:
    given: list[float] = []

    async def hang(inner: Invocation) -> ToolResult:
        given.append(inner.seconds)
        await asyncio.Event().wait()
        raise AssertionError

    result = await Timeout(most=most)(invocation(own), hang)
    assert given == [expected]
    assert f"no answer within {expected:g} s" in result.content


@pytest.mark.proves("R003-25")
async def test_a_call_longer_than_the_tool_timeout_of_an_agent_fails_and_the_model_reads_so() -> None:
    @tool(timeout=300, read_only=True)
    async def slow() -> str:
        """Slow."""
        await asyncio.Event().wait()
        return ""

    provider = ScriptedProvider([call("slow"), say("sorry")])
    await Runtime(provider=provider, sources=[slow], middleware=[Timeout(most=0.01)]).run("go")
    assert provider.requests[-1].messages[-1].content == "slow gave no answer within 0.01 s and was given up"


@pytest.mark.parametrize("most", [0, -1, float("nan")])
def test_an_upper_bound_of_nothing_is_refused(most: float) -> None:
    with pytest.raises(ConfigError, match="longest timeout"):
        Timeout(most=most)


@pytest.mark.skipif(sys.platform != "linux", reason="commands are run on Linux only")
@pytest.mark.parametrize("ending", ["timeout", "cancelled"])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_tool_that_is_given_up_leaves_no_process_behind(is_async: bool, ending: str, tmp_path: Path) -> None:
    """The named pipe comes to its end when the last process that holds it is dead, the one in its own session included."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    command = ["sh", "-c", f"exec 3>{pipe}; (setsid sh -c 'echo up >&3; sleep 1001' &); sleep 1002"]
    seconds = 0.4 if ending == "timeout" else 30.0  # enough to start it; were it not, nothing would be left either

    @tool(timeout=seconds)
    async def waits() -> str:
        """Runs a command."""
        return str(await run(command))

    @tool(timeout=seconds)
    def blocks() -> str:
        """Runs a command in a thread."""
        return str(run_blocking(command))

    used = waits if is_async else blocks
    provider = ScriptedProvider([call(used.__name__), say("sorry")])
    running = asyncio.ensure_future(Runtime(provider=provider, sources=[used]).run("go"))
    if ending == "cancelled":
        assert await asyncio.to_thread(select.select, [reader], [], [], 5) == ([reader], [], [])
        running.cancel()
    await asyncio.wait({running})
    assert await asyncio.to_thread(everything_in, reader) in (b"up\n", b"")


def everything_in(reader: int) -> bytes:
    """Reads a pipe to its end, within five seconds for each piece."""
    found = b""
    while select.select([reader], [], [], 5)[0]:
        piece = os.read(reader, 100)
        found += piece
        if not piece:
            os.close(reader)
            return found
    raise AssertionError("the pipe is still held open")
