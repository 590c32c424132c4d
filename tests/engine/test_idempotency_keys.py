"""A tool that takes an idempotency key gets one with every call, and the same one if the call is repeated after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

import pytest

from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunResult
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio


class Bank:
    """Remembers the keys of its payments."""

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self.hangs = False

    def tools(self) -> list[Any]:
        @tool(idempotency_key="key")
        async def pay(to: str, key: str) -> str:
            """Pay somebody."""
            self.keys.append(key)
            if self.hangs:
                await asyncio.sleep(60)
            return f"paid {to}"

        @tool(idempotency_key="number")
        def count(number: int) -> str:
            """Count something once for each number."""
            self.keys.append(number)
            return "counted"

        return [pay, count]


async def run(bank: Bank, *script: Any) -> RunResult:
    runtime = Runtime(provider=ScriptedProvider([*script, say("done")]), sources=bank.tools())
    return await runtime.run("pay")


def read_by_model(result: RunResult) -> list[str]:
    return [message.text for message in result.messages if message.role == "tool"]


@pytest.mark.parametrize("sent", [{}, {"key": ""}], ids=["no key", "an empty key"])
async def test_a_call_without_a_key_gets_one(sent: dict[str, Any]) -> None:
    bank = Bank()
    result = await run(bank, call("pay", {"to": "ann", **sent}))
    assert read_by_model(result) == ["paid ann"]
    assert str(uuid.UUID(bank.keys[0])) == bank.keys[0]


async def test_the_key_of_the_model_stays() -> None:
    bank = Bank()
    await run(bank, call("pay", {"to": "ann", "key": "mine"}))
    assert bank.keys == ["mine"]


async def test_two_calls_have_two_keys_also_if_the_model_repeats_an_id() -> None:
    bank = Bank()
    again = call("pay", {"to": "ann"}, call_id="c1")
    await run(bank, calls(("pay", {"to": "ann"}), ("pay", {"to": "bob"})), again, again)
    assert len(set(bank.keys)) == 4


async def test_a_key_that_is_no_text_is_left_to_the_model() -> None:
    bank = Bank()
    result = await run(bank, call("count", {}), call("count", {"number": 7}))
    assert "number" in read_by_model(result)[0]
    assert bank.keys == [7]


async def test_a_call_that_a_crash_interrupted_is_repeated_with_the_same_key() -> None:
    bank, store = Bank(), MemoryStore()

    def runtime(*script: Any) -> Runtime:
        provider = ScriptedProvider([*script, say("done")])
        return Runtime(provider=provider, sources=bank.tools(), documents=store, policy=CedarPolicy(ask=["pay"]))

    paused = await runtime(call("pay", {"to": "ann"})).run("pay ann")
    (item,) = paused.state.pending
    bank.hangs = True
    resumed = asyncio.create_task(runtime().resume(paused.run_id, approvals={item.call.id: True}))
    async with asyncio.timeout(10):
        while not bank.keys:  # noqa: ASYNC110  the tool has begun
            await asyncio.sleep(0)
    resumed.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await resumed
    bank.hangs = False

    result = await runtime().resume(paused.run_id)

    assert read_by_model(result) == ["paid ann"]
    assert bank.keys == [bank.keys[0]] * 2


async def test_an_approval_holds_for_an_equal_call_of_another_run_whose_key_is_another() -> None:
    bank, store = Bank(), MemoryStore()
    runtime = Runtime(
        provider=ScriptedProvider([call("pay", {"to": "ann"}), call("pay", {"to": "ann"}), say("done")]),
        sources=bank.tools(),
        documents=store,
        policy=CedarPolicy(ask=["pay"]),
    )
    await runtime.run("pay ann")
    (approval,) = await runtime.approvals.list("default")
    await runtime.approvals.answer("default", approval.id, approved=True, by=Principal(id="boss"))

    assert read_by_model(await runtime.run("pay ann")) == ["paid ann"]
