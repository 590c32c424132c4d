"""Questions to people: kept in the store, answered once, used once, for exactly one call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcaddie.control.approvals import StoredApprovals
from toolcaddie.core.approval import Approval
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

ANN = Principal(id="ann", tenant="house")
BOSS = Principal(id="boss", tenant="house")


class Asks:
    """Asks before every call, under a version that tests may change."""

    def __init__(self, version: str = "1", verdict: Any = "ask") -> None:
        self.version = version
        self.verdict = verdict
        self.requests: list[CallRequest] = []

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        self.requests.append(request)
        return Decision(verdict=self.verdict, reason="money leaves the house", rule="asks")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


PAY_BOB = call("pay", {"to": "bob"}, call_id="c1")


def payments(
    *later: Any, first: Any = PAY_BOB, policy: Asks | None = None, **options: Any
) -> tuple[Runtime, list[str], ScriptedProvider]:
    paid: list[str] = []

    @tool
    async def pay(to: str, _chatId: str = "") -> str:
        """Pay somebody."""
        paid.append(to)
        return f"paid {to}"

    provider = ScriptedProvider([first, *later])
    runtime = Runtime(provider=provider, sources=[pay], policy=policy or Asks(), **options)
    return runtime, paid, provider


async def only_open(runtime: Runtime) -> Approval:
    (approval,) = await runtime.approvals.list("house", status="open")
    return approval


async def test_a_paused_run_opens_a_question_that_says_what_would_run_and_why_it_is_asked() -> None:
    runtime, paid, _ = payments()
    paused = await runtime.run("pay bob", principal=ANN, injected={"_chatId": "7"})
    approval = await only_open(runtime)
    assert paused.status == "pending"
    assert paused.state.pending[0].approval == approval.id
    assert (approval.run_id, approval.call_id, approval.tool) == (paused.run_id, "c1", "pay")
    assert (approval.arguments, approval.principal) == ({"to": "bob"}, ANN)
    assert (approval.reason, approval.rule, approval.policy_version) == ("money leaves the house", "asks", "1")
    assert paid == []


async def test_an_answer_in_the_store_carries_the_run_on_without_another_one() -> None:
    runtime, paid, _ = payments(say("done"))
    paused = await runtime.run("pay bob", principal=ANN)
    answer = await runtime.approvals.answer(
        "house", (await only_open(runtime)).id, approved=True, by=BOSS, reason="it is due"
    )
    assert (answer.status, answer.answered_by, answer.answer_reason) == ("approved", BOSS, "it is due")
    assert (await runtime.resume(paused.run_id)).text == "done"
    assert paid == ["bob"]
    (used,) = await runtime.approvals.list("house")
    assert used.status == "used"


async def test_an_answer_by_resume_is_recorded_with_who_gave_it_and_why() -> None:
    runtime, paid, _ = payments(say("done"))
    paused = await runtime.run("pay bob", principal=ANN)
    await runtime.resume(paused.run_id, approvals={"c1": False}, principal=ANN, reason="not today")
    (approval,) = await runtime.approvals.list("house")
    assert (approval.status, approval.answered_by, approval.answer_reason) == ("refused", ANN, "not today")
    assert paid == []


async def test_a_question_is_answered_once_also_by_two_people_at_the_same_moment() -> None:
    runtime, _, _ = payments()
    await runtime.run("pay bob", principal=ANN)
    approval = await only_open(runtime)
    answers = [runtime.approvals.answer("house", approval.id, approved=yes) for yes in (True, False, True)]
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Approval", "RequestError", "RequestError"]
    with pytest.raises(RequestError, match="an answer cannot be changed"):
        await runtime.approvals.answer("house", approval.id, approved=True, by=BOSS)


async def test_a_run_is_not_resumed_with_another_answer_than_the_one_that_was_given() -> None:
    runtime, paid, _ = payments(say("done"))
    paused = await runtime.run("pay bob", principal=ANN)
    await runtime.approvals.answer("house", (await only_open(runtime)).id, approved=False, by=BOSS)
    with pytest.raises(RequestError, match="refused by boss already"):
        await runtime.resume(paused.run_id, approvals={"c1": True})
    assert (await runtime.resume(paused.run_id)).text == "done"
    assert paid == []


async def test_an_expired_question_is_no_longer_answered_and_is_put_again_when_the_run_goes_on() -> None:
    clock = Clock()
    runtime, paid, _ = payments(say("done"), clock=clock)
    paused = await runtime.run("pay bob", principal=ANN)
    first = await only_open(runtime)
    clock.now = first.expires
    assert await runtime.approvals.list("house", status="open") == []
    with pytest.raises(RequestError, match="expired"):
        await runtime.approvals.answer("house", first.id, approved=True)
    with pytest.raises(RequestError, match="expired"):
        await runtime.resume(paused.run_id, approvals={"c1": True})
    again = await runtime.resume(paused.run_id)
    second = await only_open(runtime)
    assert (again.status, paid) == ("pending", [])
    assert second.id != first.id
    assert (await runtime.resume(paused.run_id, approvals={"c1": True})).text == "done"
    assert paid == ["bob"]


async def test_an_approval_under_another_version_of_the_policy_does_not_count() -> None:
    policy = Asks("1")
    runtime, paid, _ = payments(say("done"), policy=policy)
    paused = await runtime.run("pay bob", principal=ANN)
    await runtime.approvals.answer("house", (await only_open(runtime)).id, approved=True)
    policy.version = "2"
    again = await runtime.resume(paused.run_id)
    assert (again.status, paid) == ("pending", [])
    assert (await only_open(runtime)).policy_version == "2"
    assert (await runtime.resume(paused.run_id, approvals={"c1": True})).text == "done"
    assert paid == ["bob"]


async def test_a_refusal_counts_under_every_version_of_the_policy() -> None:
    policy = Asks("1")
    runtime, paid, _ = payments(say("done"), policy=policy)
    paused = await runtime.run("pay bob", principal=ANN)
    policy.version, policy.verdict = "2", "allow"
    assert (await runtime.resume(paused.run_id, approvals={"c1": False})).text == "done"
    assert paid == []


async def test_an_approval_is_used_for_no_other_arguments_and_not_twice() -> None:
    runtime, _, _ = payments()
    await runtime.run("pay bob", principal=ANN)
    approval = await only_open(runtime)
    approvals = runtime.approvals
    with pytest.raises(RequestError, match="not answered yet"):
        await approvals.use("house", approval.id, digest=approval.digest, policy_version="1")
    await approvals.answer("house", approval.id, approved=True)
    with pytest.raises(RequestError, match="other arguments of pay"):
        await approvals.use("house", approval.id, digest="of something else", policy_version="1")
    with pytest.raises(RequestError, match="under policy '1', which is '2' now"):
        await approvals.use("house", approval.id, digest=approval.digest, policy_version="2")
    await approvals.use("house", approval.id, digest=approval.digest, policy_version="1")
    with pytest.raises(RequestError, match="it counts once"):
        await approvals.use("house", approval.id, digest=approval.digest, policy_version="1")


async def test_tenants_neither_see_nor_answer_each_others_questions() -> None:
    runtime, _, _ = payments()
    await runtime.run("pay bob", principal=ANN)
    approval = await only_open(runtime)
    assert await runtime.approvals.list("elsewhere") == []
    with pytest.raises(RequestError, match="there is no approval"):
        await runtime.approvals.answer("elsewhere", approval.id, approved=True)


async def test_a_list_is_of_one_status_and_begins_with_the_oldest() -> None:
    clock = Clock()
    approvals = StoredApprovals(MemoryStore(), clock=clock)
    for number in range(5):
        await approvals.open(an_approval(f"a{4 - number}", created=clock.now + number, expires=clock.now + 60))
    await approvals.answer("house", "a3", approved=True)
    assert [item.id for item in await approvals.list("house", status="open", limit=3)] == ["a4", "a2", "a1"]
    assert [item.id for item in await approvals.list("house", status="approved")] == ["a3"]


def an_approval(name: str, *, created: float, expires: float) -> Approval:
    return Approval(
        id=name,
        run_id="r",
        call_id="c",
        tool="pay",
        arguments={},
        digest="d",
        policy_version="1",
        principal=ANN,
        created=created,
        expires=expires,
    )


async def test_an_approver_is_given_the_question_and_an_answer_at_once_needs_no_store() -> None:
    class Colleague:
        asked: Approval | None = None

        async def approve(self, approval: Approval) -> bool | None:
            self.asked = approval
            return True

    colleague = Colleague()
    runtime, paid, _ = payments(say("done"), approver=colleague)
    assert (await runtime.run("pay bob", principal=ANN)).text == "done"
    assert colleague.asked is not None
    assert (colleague.asked.tool, colleague.asked.arguments) == ("pay", {"to": "bob"})
    assert paid == ["bob"]
    assert await runtime.approvals.list("house") == []


async def test_every_question_of_a_turn_needs_an_answer_before_any_is_recorded() -> None:
    both = calls(("pay", {"to": "ann"}), ("pay", {"to": "bob"}), ids=("a", "b"))
    runtime, paid, _ = payments(say("done"), first=both)
    paused = await runtime.run("pay both", principal=ANN)
    with pytest.raises(RequestError, match="b"):
        await runtime.resume(paused.run_id, approvals={"a": True})
    assert len(await runtime.approvals.list("house", status="open")) == 2
    assert (await runtime.resume(paused.run_id, approvals={"a": True, "b": False})).text == "done"
    assert {item.call_id: item.status for item in await runtime.approvals.list("house")} == {
        "a": "used",
        "b": "refused",
    }
    assert paid == ["ann"]


async def test_policy_sees_the_run_that_a_call_belongs_to() -> None:
    policy = Asks(verdict="allow")
    runtime, _, _ = payments(call("pay", {"to": "eve"}), say("done"), policy=policy)
    await runtime.run("pay bob", principal=ANN)
    first, second = policy.requests
    assert (first.state.called, second.state.called) == ((), ("pay",))
    assert second.state.messages[-2].content == "paid bob"
    assert (second.tool.name, second.arguments, second.context.principal) == ("pay", {"to": "eve"}, ANN)
