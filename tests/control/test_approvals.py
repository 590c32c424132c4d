"""Questions to people: kept in the store, answered once, used once, for exactly one call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_url
from toolcaddie.audit.trail import Trail
from toolcaddie.control.approvals import StoredApprovals
from toolcaddie.core.approval import Approval
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import AuditError, ConfigError, RequestError
from toolcaddie.core.events import ApprovalClosed, RunEvent
from toolcaddie.core.storage import EventRecord
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database
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


async def test_an_approval_counts_for_an_equal_call_of_another_run_and_then_for_none() -> None:
    runtime, paid, _ = payments(PAY_BOB, PAY_BOB, say("done"), first=PAY_BOB)
    waiting = [await runtime.run("pay bob", principal=ANN) for _ in range(2)]
    approval = await only_open(runtime)  # one question for both
    await runtime.approvals.answer("house", approval.id, approved=True, by=BOSS)
    assert (await runtime.run("pay bob", principal=BOSS)).status == "pending"  # another principal asks for itself
    assert (await runtime.resume(waiting[0].run_id)).text == "done"
    assert paid == ["bob"]
    assert (await runtime.resume(waiting[1].run_id)).status == "pending"
    assert paid == ["bob"]


async def test_two_equal_calls_of_one_run_are_two_questions() -> None:
    runtime, paid, _ = payments(say("done"), first=calls(("pay", {"to": "bob"}), ("pay", {"to": "bob"})))
    paused = await runtime.run("pay bob twice", principal=ANN)
    questions = await runtime.approvals.list("house", status="open")
    assert len(questions) == 2
    await runtime.resume(paused.run_id, approvals={questions[0].call_id: True, questions[1].call_id: False})
    assert paid == ["bob"]


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
    with pytest.raises(RequestError, match="an approval counts once"):
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


# --- the record of answers


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(database_url(tmp_path / "trail.sqlite")) as database:
        yield database


async def rows_of(database: Database, run_id: str) -> Sequence[EventRecord]:
    return await database.events.events(run_id)


async def closed_approvals(database: Database, run_id: str) -> Sequence[Mapping[str, Any]]:
    return [row.data for row in await rows_of(database, run_id) if row.kind == "approval_closed"]


@pytest.mark.parametrize(("approved", "status"), [(True, "approved"), (False, "refused")])
async def test_an_answer_is_on_record_before_the_run_is_resumed(
    database: Database, approved: bool, status: str
) -> None:
    clock = Clock()
    runtime, _, _ = payments(trail=Trail(database.events), documents=database.store, clock=clock)
    paused = await runtime.run("pay bob", principal=ANN)
    approval = await only_open(runtime)
    clock.now += 60
    await runtime.approvals.answer("house", approval.id, approved=approved, by=BOSS, reason="it is due")
    (row,) = await closed_approvals(database, paused.run_id)
    assert row == {
        "id": "c1",
        "name": "pay",
        "approval": approval.id,
        "status": status,
        "by": "boss",
        "reason": "it is due",
        "asked": clock.now - 60,
        "closed": clock.now,
        "policy_version": "1",
    }


async def test_an_answer_by_resume_is_one_row_between_the_pause_and_the_resumption(database: Database) -> None:
    runtime, paid, _ = payments(say("done"), trail=Trail(database.events), documents=database.store)
    paused = await runtime.run("pay bob", principal=ANN)
    await runtime.resume(paused.run_id, approvals={"c1": True}, principal=ANN, reason="go ahead")
    rows = await rows_of(database, paused.run_id)
    kinds = [row.kind for row in rows]
    assert kinds[kinds.index("run_paused") :][:4] == ["run_paused", "approval_closed", "run_resumed", "call_decided"]
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    (row,) = await closed_approvals(database, paused.run_id)
    assert (row["status"], row["by"], row["reason"]) == ("approved", "ann", "go ahead")
    assert paid == ["bob"]


async def test_rows_stay_in_order_when_one_process_answers_and_another_carries_the_run_on(tmp_path: Path) -> None:
    url = database_url(tmp_path / "shared.sqlite")
    pay_eve = call("pay", {"to": "eve"}, call_id="c2")
    async with Database(url) as here, Database(url) as there:
        answering, _, _ = payments(trail=Trail(here.events), documents=here.store)
        carrying, paid, _ = payments(say("done"), first=pay_eve, trail=Trail(there.events), documents=there.store)
        run_id = (await answering.run("pay bob", principal=ANN)).run_id
        for status in ("pending", "completed"):
            await answering.approvals.answer("house", (await only_open(answering)).id, approved=True)
            assert (await carrying.resume(run_id)).status == status
        assert paid == ["bob", "eve"]
        rows = await rows_of(here, run_id)
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))


async def test_an_expired_question_is_on_record_when_the_run_goes_on(database: Database) -> None:
    clock = Clock()
    runtime, _, _ = payments(trail=Trail(database.events), documents=database.store, clock=clock)
    paused = await runtime.run("pay bob", principal=ANN)
    question = await only_open(runtime)
    clock.now = question.expires + 5
    assert (await runtime.resume(paused.run_id)).status == "pending"
    (row,) = await closed_approvals(database, paused.run_id)
    assert (row["approval"], row["status"], row["by"]) == (question.id, "expired", "")
    assert row["closed"] == question.expires


@pytest.mark.parametrize(("approved", "status"), [(True, "approved"), (False, "refused")])
async def test_the_decision_of_an_approver_is_on_record(database: Database, approved: bool, status: str) -> None:
    class Present:
        async def approve(self, approval: Approval) -> bool:
            return approved

    runtime, _, _ = payments(say("done"), trail=Trail(database.events), approver=Present())
    done = await runtime.run("pay bob", principal=ANN)
    (row,) = await closed_approvals(database, done.run_id)
    assert (row["status"], row["name"], row["by"]) == (status, "pay", "")


async def test_a_decision_names_the_version_of_its_policy(database: Database) -> None:
    runtime, _, _ = payments(policy=Asks("rules-7"), trail=Trail(database.events))
    paused = await runtime.run("pay bob", principal=ANN)
    (decided,) = [row.data for row in await rows_of(database, paused.run_id) if row.kind == "call_decided"]
    assert decided["policy_version"] == "rules-7"


async def test_an_answer_that_cannot_be_recorded_does_not_count() -> None:
    class FullDisk:
        full = False

        async def emit(self, event: RunEvent) -> None:
            if self.full and isinstance(event, ApprovalClosed):
                raise AuditError("the disk is full")

    disk = FullDisk()
    runtime, paid, _ = payments(say("done"), trail=disk)
    paused = await runtime.run("pay bob", principal=ANN)
    approval = await only_open(runtime)
    disk.full = True
    with pytest.raises(AuditError, match="the disk is full"):
        await runtime.approvals.answer("house", approval.id, approved=True, by=BOSS)
    assert await only_open(runtime) == approval
    with pytest.raises(AuditError, match="the disk is full"):
        await runtime.resume(paused.run_id, approvals={"c1": True})
    assert paid == []
    disk.full = False
    assert (await runtime.resume(paused.run_id, approvals={"c1": True})).text == "done"
    assert paid == ["bob"]


# --- the expiry of questions


async def test_a_question_expires_after_the_configured_time() -> None:
    clock = Clock()
    runtime, _, _ = payments(approval_expiry=600, clock=clock)
    await runtime.run("pay bob", principal=ANN)
    assert (await only_open(runtime)).expires == clock.now + 600
    clock.now += 599
    assert (await only_open(runtime)).status == "open"
    clock.now += 1
    assert await runtime.approvals.list("house", status="open") == []


async def test_a_question_expires_after_30_days_by_default() -> None:
    clock = Clock()
    runtime, _, _ = payments(clock=clock)
    await runtime.run("pay bob", principal=ANN)
    assert (await only_open(runtime)).expires == clock.now + 30 * 86_400


async def test_a_run_waits_as_long_as_its_question() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    runtime, paid, _ = payments(say("done"), approval_expiry=90 * 86_400, documents=store, clock=clock)
    paused = await runtime.run("pay bob", principal=ANN)
    clock.now += 89 * 86_400
    assert (await runtime.resume(paused.run_id, approvals={"c1": True})).text == "done"
    assert paid == ["bob"]


@pytest.mark.parametrize("expiry", [0, -1, float("inf"), float("nan"), "30d", True])
def test_an_expiry_that_is_no_number_of_seconds_is_refused(expiry: Any) -> None:
    with pytest.raises(ConfigError, match=r"approval_expiry is .*; write seconds, more than 0"):
        payments(approval_expiry=expiry)


# --- questions that are gone, and answers at the same moment


async def test_a_question_that_is_no_longer_stored_counts_as_expired_and_is_put_again() -> None:
    store = MemoryStore()
    runtime, paid, _ = payments(say("done"), documents=store)
    paused = await runtime.run("pay bob", principal=ANN)
    first = await only_open(runtime)
    (document,) = (await store.scan("approval")).documents
    await store.delete("approval", document.key)
    with pytest.raises(RequestError, match="the question about c1 has expired"):
        await runtime.resume(paused.run_id, approvals={"c1": True})
    assert (await runtime.resume(paused.run_id)).status == "pending"
    assert (await only_open(runtime)).id != first.id
    assert (await runtime.resume(paused.run_id, approvals={"c1": True})).text == "done"
    assert paid == ["bob"]


@pytest.mark.parametrize("approved", [True, False])
async def test_of_several_who_resume_with_the_same_answer_one_carries_the_run_on(
    database: Database, approved: bool
) -> None:
    runtime, paid, _ = payments(say("done"), documents=database.store, trail=Trail(database.events))
    paused = await runtime.run("pay bob", principal=ANN)
    resumptions = [runtime.resume(paused.run_id, approvals={"c1": approved}) for _ in range(5)]
    outcomes = await asyncio.gather(*resumptions, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["RunNotFoundError"] * 4 + ["RunResult"]
    assert paid == (["bob"] if approved else [])
    assert len(await closed_approvals(database, paused.run_id)) == 1


async def test_of_two_opposite_answers_at_the_same_moment_one_counts(database: Database) -> None:
    runtime, paid, _ = payments(say("done"), documents=database.store, trail=Trail(database.events))
    paused = await runtime.run("pay bob", principal=ANN)
    answers = [runtime.resume(paused.run_id, approvals={"c1": approved}) for approved in (True, False)]
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    assert sum(isinstance(outcome, Exception) for outcome in outcomes) == 1
    (row,) = await closed_approvals(database, paused.run_id)
    assert paid == (["bob"] if row["status"] == "approved" else [])


@pytest.mark.parametrize(("reason", "shown"), [("too much", "too much"), ("", "house-rule")])
async def test_a_denied_call_names_its_reason_or_else_its_rule(reason: str, shown: str) -> None:
    class Denies(Asks):
        async def decide(self, request: CallRequest) -> Decision:
            return Decision(verdict="deny", reason=reason, rule="house-rule")

    runtime, paid, provider = payments(say("done"), policy=Denies())
    await runtime.run("pay bob", principal=ANN)
    assert [message.text for message in provider.requests[-1].messages if message.role == "tool"] == [
        f"Not allowed: {shown}."
    ]
    assert paid == []


@pytest.mark.parametrize("verdict", ["allow", "deny"])
async def test_an_approved_call_follows_the_current_policy_when_that_no_longer_asks(verdict: str) -> None:
    policy = Asks()
    runtime, paid, _ = payments(say("done"), policy=policy)
    paused = await runtime.run("pay bob", principal=ANN)
    await runtime.approvals.answer("house", (await only_open(runtime)).id, approved=True)
    policy.verdict = verdict
    assert (await runtime.resume(paused.run_id)).text == "done"
    assert paid == (["bob"] if verdict == "allow" else [])
    (approval,) = await runtime.approvals.list("house")
    assert approval.status == "approved"  # it was not needed, so it is not used up


async def test_a_list_is_cut_at_its_limit() -> None:
    runtime, _, _ = payments(first=calls(("pay", {"to": "bob"}), ("pay", {"to": "eve"})))
    await runtime.run("pay both", principal=ANN)
    assert len(await runtime.approvals.list("house")) == 2
    assert len(await runtime.approvals.list("house", limit=1)) == 1


async def test_a_call_that_a_person_refused_is_a_denial() -> None:
    class Refuses:
        async def approve(self, approval: Approval) -> bool:
            return False

    runtime, paid, _ = payments(approver=Refuses())
    result = await runtime.call("pay", {"to": "bob"}, principal=ANN)
    assert (result.text, result.error) == ("A person did not approve this call.", "denied")
    assert paid == []


async def test_an_approver_answers_also_while_an_equal_question_waits_in_the_inbox() -> None:
    answers = [None, True]

    class Later:
        async def approve(self, approval: Approval) -> bool | None:
            return answers.pop(0)

    runtime, paid, _ = payments(PAY_BOB, say("done"), approver=Later())
    assert (await runtime.run("pay bob", principal=ANN)).status == "pending"
    assert (await runtime.run("pay bob", principal=ANN)).text == "done"
    assert paid == ["bob"]
    await only_open(runtime)
