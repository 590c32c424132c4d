"""Paused runs: each is resumed once, by its owner only, and repeats no call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.capabilities import CacheRule, Capabilities
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import AuditError, ProviderError, ProviderUnavailableError, RequestError, RunNotFoundError
from toolcaddie.core.events import CallFinished, RunEvent
from toolcaddie.core.presets import preset
from toolcaddie.core.run import RunResult
from toolcaddie.runtime import Runtime
from toolcaddie.samples import gym
from toolcaddie.sources.functions import tool
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

DOWN = ProviderUnavailableError("the provider is down")


class AsksAlways:
    version = "1"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        return Decision(verdict="ask", rule="asks")


def payments() -> tuple[Callable[..., Any], list[str]]:
    paid: list[str] = []

    @tool
    async def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        await asyncio.sleep(0)
        return f"paid {to}"

    return pay, paid


async def paused(*later: Any, **options: Any) -> tuple[Runtime, RunResult, list[str], ScriptedProvider]:
    pay, paid = payments()
    provider = ScriptedProvider([call("pay", {"to": "ann"}, call_id="c1"), *later])
    runtime = Runtime(provider=provider, sources=[pay], policy=AsksAlways(), **options)
    return runtime, await runtime.run("pay ann"), paid, provider


async def test_of_several_callers_who_resume_a_run_at_once_one_goes_on() -> None:
    runtime, waiting, paid, _ = await paused(say("done"))
    tries = [runtime.resume(waiting.run_id, approvals={"c1": True}) for _ in range(3)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert paid == ["ann"]
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "RunNotFoundError",
        "RunNotFoundError",
        "RunResult",
    ]


async def test_a_provider_that_fails_behind_an_approved_tool_does_not_make_it_run_again() -> None:
    runtime, waiting, paid, provider = await paused(DOWN, DOWN, say("done"))
    for _ in range(2):
        with pytest.raises(ProviderError):
            await runtime.resume(waiting.run_id, approvals={"c1": True})
    done = await runtime.resume(waiting.run_id)
    assert (done.text, paid, done.tool_calls) == ("done", ["ann"], ("pay",))
    assert provider.requests[-1].messages[-1].content == "paid ann"
    with pytest.raises(RunNotFoundError):
        await runtime.resume(waiting.run_id)


async def test_a_call_whose_record_failed_has_an_unknown_outcome_and_is_not_repeated() -> None:
    class FailsOnce:
        failed = False

        async def emit(self, event: RunEvent) -> None:
            if isinstance(event, CallFinished) and not self.failed:
                self.failed = True
                raise AuditError("the disk is full")

    runtime, waiting, paid, provider = await paused(say("I will look."), trail=FailsOnce())
    with pytest.raises(AuditError):
        await runtime.resume(waiting.run_id, approvals={"c1": True})
    done = await runtime.resume(waiting.run_id)
    assert (done.text, paid) == ("I will look.", ["ann"])
    assert "not known" in provider.requests[-1].messages[-1].content


async def test_a_missing_answer_leaves_the_run_unchanged() -> None:
    runtime, waiting, paid, _ = await paused(say("done"))
    with pytest.raises(RequestError, match="c1"):
        await runtime.resume(waiting.run_id)
    assert (await runtime.resume(waiting.run_id, approvals={"c1": True})).text == "done"
    assert paid == ["ann"]


async def test_only_the_owner_of_a_run_resumes_it() -> None:
    runtime, waiting, paid, _ = await paused(say("done"))
    for stranger in (Principal(id="eve"), Principal(tenant="elsewhere")):
        with pytest.raises(RunNotFoundError, match="no run"):
            await runtime.resume(waiting.run_id, approvals={"c1": True}, principal=stranger)
    assert not paid
    done = await runtime.resume(waiting.run_id, approvals={"c1": True}, principal=Principal(role="cashier"))
    assert done.text == "done"


async def test_a_new_run_does_not_take_the_place_of_one_that_waits() -> None:
    runtime, waiting, _, _ = await paused(say("done"))
    with pytest.raises(RequestError, match="already"):
        await runtime.run("pay eve", run_id=waiting.run_id, principal=Principal(id="eve"))
    assert (await runtime.resume(waiting.run_id, approvals={"c1": True})).text == "done"


async def test_when_the_record_of_one_call_fails_those_under_way_come_to_their_end() -> None:
    began, ended = list[int](), list[int]()
    second = asyncio.Event()

    @tool(concurrent=True)
    async def write(number: int) -> str:
        """Write."""
        began.append(number)
        if number == 2:
            await second.wait()
            for _ in range(20):
                await asyncio.sleep(0)
        ended.append(number)
        return "written"

    class FailsAtTheFirst:
        async def emit(self, event: RunEvent) -> None:
            if isinstance(event, CallFinished) and event.call.id == "a":
                second.set()
                raise AuditError("the disk is full")

    provider = ScriptedProvider([calls(("write", {"number": 1}), ("write", {"number": 2}), ids=("a", "b"))])
    with pytest.raises(AuditError):
        await Runtime(provider=provider, sources=[write], trail=FailsAtTheFirst()).run("write")
    assert sorted(ended) == sorted(began) == [1, 2]


@pytest.mark.parametrize("delivery", ["auto", "direct", "masked", "native"])
@pytest.mark.parametrize("cache", [CacheRule(), CacheRule(kind="automatic", lifetime=300.0)])
async def test_a_resumed_run_offers_the_tools_it_offered_before(delivery: Any, cache: CacheRule) -> None:
    pay, _ = payments()
    provider = ScriptedProvider([call("pay", {"to": "ann"}, call_id="c1"), say("done")])
    runtime = Runtime(
        provider=provider,
        sources=[pay, gym.source()],
        policy=AsksAlways(),
        preset=replace(preset("default"), delivery=delivery),
        capabilities=[Capabilities(cache=cache)],
    )
    waiting = await runtime.run("pay ann")
    await runtime.resume(waiting.run_id, approvals={"c1": True})
    before, after = provider.requests
    assert len(before.tools) > 4
    assert (after.tools, after.allowed, after.deferred) == (before.tools, before.allowed, before.deferred)


async def test_a_call_that_the_policy_denies_by_now_does_not_run_even_after_an_approval() -> None:
    class Changing(AsksAlways):
        verdict = "ask"

        async def decide(self, *_: Any) -> Decision:
            return Decision(verdict=self.verdict, rule="changed")  # type: ignore[arg-type]

    pay, paid = payments()
    policy = Changing()
    provider = ScriptedProvider([call("pay", {"to": "ann"}, call_id="c1"), say("not done")])
    runtime = Runtime(provider=provider, sources=[pay], policy=policy)
    waiting = await runtime.run("pay ann")
    policy.verdict = "deny"
    result = await runtime.resume(waiting.run_id, approvals={"c1": True})
    assert paid == []
    assert "Not allowed" in result.state.messages[-2].text


async def test_a_waiting_run_is_stored_without_the_keys_of_its_caller() -> None:
    documents = MemoryStore()
    pay, _ = payments()
    provider = ScriptedProvider([call("pay", {"to": "ann"}, call_id="c1")])
    runtime = Runtime(provider=provider, sources=[pay], policy=AsksAlways(), documents=documents)
    waiting = await runtime.run("pay ann", headers={"Authorization": "Bearer sk-secret", "x-trace": "t-1"})
    stored = [await documents.get("run", waiting.run_id)]
    assert b"t-1" in (stored[0] or b"")
    assert b"sk-secret" not in (stored[0] or b"")
