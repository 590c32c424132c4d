"""Durable runs: stored from their first step, continued after whatever happens, forgotten by whoever began them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from toolcaddie.core.errors import LimitExceededError, ProviderUnavailableError, RequestError, RunNotFoundError
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.run import RunContext
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

CALLS: list[str] = []


@tool(destructive=False)
def mark(what: str) -> str:
    """Leave a mark.

    Args:
        what: The mark.
    """
    CALLS.append(what)
    return "marked"


def house(*script: object, store: MemoryStore | None = None, **more: object) -> Runtime:
    CALLS.clear()
    provider = ScriptedProvider(list(script))
    return Runtime(provider=provider, sources=[mark], preset="multibot", documents=store or MemoryStore(), **more)


async def test_a_durable_run_that_failed_goes_on_after_its_last_call() -> None:
    runtime = house(call("mark", {"what": "a"}), ProviderUnavailableError("down"), say("done"))
    with pytest.raises(ProviderUnavailableError):
        await runtime.run("go", run_id="work_1", durable=True)
    result = await runtime.resume("work_1")
    assert (result.text, CALLS) == ("done", ["a"])


async def test_a_durable_run_that_failed_before_its_first_answer_begins_again() -> None:
    runtime = house(ProviderUnavailableError("down"), call("mark", {"what": "a"}), say("done"))
    with pytest.raises(ProviderUnavailableError):
        await runtime.run("go", run_id="work_1", durable=True)
    assert ((await runtime.resume("work_1")).text, CALLS) == ("done", ["a"])


async def test_a_durable_run_gives_its_answer_again_until_it_is_forgotten() -> None:
    runtime = house(call("mark", {"what": "a"}), say("done"))
    await runtime.run("go", run_id="work_1", durable=True)
    assert ((await runtime.resume("work_1")).text, CALLS) == ("done", ["a"])
    await runtime.forget("work_1")
    with pytest.raises(RunNotFoundError):
        await runtime.resume("work_1")


async def test_an_id_belongs_to_one_durable_run() -> None:
    runtime = house(say("done"), say("again"))
    await runtime.run("go", run_id="work_1", durable=True)
    with pytest.raises(RequestError, match="there is a run 'work_1' already"):
        await runtime.run("go", run_id="work_1", durable=True)


async def test_a_run_that_its_limits_ended_is_not_continued() -> None:
    preset = replace(PRESETS["multibot"], limits=replace(PRESETS["multibot"].limits, calls=1))
    provider = ScriptedProvider([call("mark", {"what": "a"}), call("mark", {"what": "b"})])
    runtime = Runtime(provider=provider, sources=[mark], preset=preset)
    with pytest.raises(LimitExceededError):
        await runtime.run("go", run_id="work_1", durable=True)
    with pytest.raises(RunNotFoundError):
        await runtime.resume("work_1")


async def test_a_cancelled_durable_run_can_be_continued_and_its_call_is_not_repeated() -> None:
    began = asyncio.Event()

    @tool(destructive=False)
    async def wait(context: RunContext) -> str:
        """Wait for ever, the first time."""
        CALLS.append("wait")
        began.set()
        await asyncio.Event().wait()
        return "never"

    CALLS.clear()
    runtime = Runtime(provider=ScriptedProvider([call("wait"), say("done")]), sources=[wait], preset="multibot")
    task = asyncio.create_task(runtime.run("go", run_id="work_1", durable=True))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await runtime.resume("work_1")
    assert (result.text, CALLS) == ("done", ["wait"])
    assert "whether it took effect is not known" in result.state.messages[2].text
