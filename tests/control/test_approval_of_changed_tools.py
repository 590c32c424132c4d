"""An approval counts for the tool that the person was asked about: a tool that changes meanwhile never runs on it."""

from __future__ import annotations

import pytest

from toolcaddie.core.approval import Approval
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.runtime import Runtime
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

BOSS = Principal(id="boss")


class AsksAlways:
    version = "1"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        return Decision(verdict="ask", rule="asks")


class Tools:
    """A source whose tool can be swapped, and a list of the calls that ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.source = CombinedSource([self.part("bank", "pay", "Pay somebody.")])

    def part(self, source: str, name: str, description: str) -> FunctionSource:
        async def pay(to: str) -> str:
            self.ran.append(f"{source}/{name}")
            return f"paid {to}"

        return FunctionSource(source, [tool(name=name, description=description)(pay)])

    async def swap(self, source: str, name: str, description: str) -> None:
        await self.source.change(remove=["bank"], add=[self.part(source, name, description)])


SWAPS = [
    pytest.param(("bank", "pay", "Pay somebody twice."), id="redefined"),
    pytest.param(("thief", "pay", "Pay somebody."), id="another source"),
    pytest.param(("bank", "pay_anybody", "Pay somebody."), id="renamed"),
]


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("answered_first", [True, False])
async def test_a_tool_that_changes_before_the_run_goes_on_does_not_run(
    swap: tuple[str, str, str], answered_first: bool
) -> None:
    tools = Tools()
    provider = ScriptedProvider([call("pay", {"to": "ann"}, call_id="c1"), say("done")])
    async with Runtime(provider=provider, sources=[tools.source], policy=AsksAlways()) as runtime:
        waiting = await runtime.run("pay ann")
        (question,) = await runtime.approvals.list("default", status="open")
        if not answered_first:
            await tools.swap(*swap)
        await runtime.approvals.answer("default", question.id, approved=True, by=BOSS)
        if answered_first:
            await tools.swap(*swap)
        done = await runtime.resume(waiting.run_id)
    assert (done.text, tools.ran) == ("done", [])
    read = provider.requests[-1].messages[-1].content
    assert "pay has changed since a person was asked" in str(read)
    assert "a new question is asked" in str(read)


@pytest.mark.parametrize("swap", SWAPS)
async def test_a_tool_that_changes_while_a_person_answers_does_not_run(swap: tuple[str, str, str]) -> None:
    tools = Tools()

    class Swaps:
        async def approve(self, approval: Approval) -> bool:
            await tools.swap(*swap)
            return True

    provider = ScriptedProvider([call("pay", {"to": "ann"}, call_id="c1"), say("done")])
    runtime = Runtime(provider=provider, sources=[tools.source], policy=AsksAlways(), approver=Swaps())
    async with runtime:
        assert (await runtime.run("pay ann")).text == "done"
    assert tools.ran == []
    assert "pay has changed since a person was asked" in str(provider.requests[-1].messages[-1].content)


async def test_an_approval_of_the_old_tool_does_not_count_in_another_run() -> None:
    tools = Tools()
    provider = ScriptedProvider([call("pay", {"to": "ann"}, call_id="c1"), call("pay", {"to": "ann"}, call_id="c2")])
    async with Runtime(provider=provider, sources=[tools.source], policy=AsksAlways()) as runtime:
        await runtime.run("pay ann")
        (question,) = await runtime.approvals.list("default", status="open")
        await runtime.approvals.answer("default", question.id, approved=True, by=BOSS)
        await tools.swap("bank", "pay", "Pay somebody twice.")
        assert (await runtime.run("pay ann")).status == "pending"
    assert tools.ran == []


async def test_a_tool_that_is_the_same_again_after_a_reload_runs() -> None:
    tools = Tools()
    provider = ScriptedProvider([call("pay", {"to": "ann"}, call_id="c1"), say("done")])
    async with Runtime(provider=provider, sources=[tools.source], policy=AsksAlways()) as runtime:
        waiting = await runtime.run("pay ann")
        await tools.swap("bank", "pay", "Pay somebody.")
        await runtime.resume(waiting.run_id, approvals={"c1": True})
    assert tools.ran == ["bank/pay"]
