"""An approval holds for the tool that was asked about, and not for another one that takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolcaddie.core.approval import Approval
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio


def payments(to: str, paid: list[str], **options: Any) -> FunctionSource:
    """A source with a tool that pays, and says whom it paid."""

    @tool(destructive=True, **options)
    def pay(amount: int) -> str:
        """Pays an amount."""
        paid.append(to)
        return f"paid {to}"

    return FunctionSource("payments", [pay])


def scripted() -> ScriptedProvider:
    return ScriptedProvider([call("pay", {"amount": 5}, call_id="c1"), say("done")])


async def test_an_approval_does_not_hold_for_other_code_behind_the_same_definition() -> None:
    paid: list[str] = []
    store = MemoryStore()
    async with Runtime(provider=scripted(), sources=[payments("ann", paid)], documents=store) as runtime:
        waiting = await runtime.run("pay")
        (question,) = await runtime.approvals.list("default")
        await runtime.approvals.answer("default", question.id, approved=True)
    async with Runtime(provider=scripted(), sources=[payments("eve", paid)], documents=store) as runtime:
        again = await runtime.resume(waiting.run_id)
        assert (again.status, paid) == ("pending", [])
        questions = await runtime.approvals.list("default", status="open")
        assert [each.id for each in questions] != [question.id]


async def test_an_approval_holds_for_the_same_code_after_a_restart() -> None:
    paid: list[str] = []
    store = MemoryStore()
    async with Runtime(provider=scripted(), sources=[payments("ann", paid)], documents=store) as runtime:
        waiting = await runtime.run("pay")
    async with Runtime(
        provider=ScriptedProvider([say("done")]), sources=[payments("ann", paid)], documents=store
    ) as runtime:
        result = await runtime.resume(waiting.run_id, approvals={"c1": True})
    assert (result.text, paid) == ("done", ["ann"])


@pytest.mark.parametrize("change", [{"description": "Pays double."}, {"category": "gifts"}, {"untrusted": True}])
async def test_an_approval_does_not_hold_for_another_definition(change: dict[str, Any]) -> None:
    paid: list[str] = []
    store = MemoryStore()
    async with Runtime(provider=scripted(), sources=[payments("ann", paid)], documents=store) as runtime:
        waiting = await runtime.run("pay")
    async with Runtime(provider=scripted(), sources=[payments("ann", paid, **change)], documents=store) as runtime:
        again = await runtime.resume(waiting.run_id, approvals={"c1": True})
    assert (again.status, paid) == ("pending", [])


class Swaps:
    """An approver that says yes, after somebody has exchanged the source meanwhile."""

    def __init__(self, swap: Callable[[], Any]) -> None:
        self._swap = swap

    async def approve(self, approval: Approval) -> bool:
        await self._swap()
        await asyncio.sleep(0)
        return True


async def test_a_source_that_is_exchanged_during_the_question_never_runs() -> None:
    paid: list[str] = []

    async def swap() -> None:
        await runtime.remove_source("payments")
        await runtime.add_source(payments("eve", paid))

    async with Runtime(
        provider=scripted(), sources=[payments("ann", paid)], approver=Swaps(swap), documents=MemoryStore()
    ) as runtime:
        result = await runtime.run("pay")
    (message,) = [message for message in result.messages if message.role == "tool"]
    assert paid == []
    assert "pay has changed since a person was asked" in message.text
