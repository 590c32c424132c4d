"""The policy of a runtime is exchanged while it works: each call is judged by one policy, whole."""

from __future__ import annotations

import pytest

from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.events import CallDecided, RunEvent
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

STRICT = CedarPolicy(text='@id("shut") forbid (principal, action == Action::"call", resource);')


@tool
def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


class Sink:
    def __init__(self) -> None:
        self.decisions: list[CallDecided] = []

    async def emit(self, event: RunEvent) -> None:
        if isinstance(event, CallDecided):
            self.decisions.append(event)


async def test_a_run_that_is_under_way_is_judged_by_the_new_rules() -> None:
    sink = Sink()
    old = CedarPolicy()

    def stricter(_: object) -> object:
        runtime.change_policy(STRICT)
        return call("pay", {"to": "bob"})

    runtime = Runtime(
        provider=ScriptedProvider([call("pay", {"to": "ann"}), stricter, say("done")]),
        sources=[pay],
        policy=old,
        sinks=[sink],
    )
    await runtime.run("pay them")

    assert [decided.decision.verdict for decided in sink.decisions] == ["allow", "deny"]
    assert [decided.decision.policy_version for decided in sink.decisions] == [old.version, STRICT.version]


async def test_a_hidden_tool_is_neither_shown_nor_called_from_now_on() -> None:
    runtime = Runtime(provider=ScriptedProvider([]), sources=[pay])
    assert [each.name for each in runtime.view("pay")] == ["pay"]
    runtime.change_policy(CedarPolicy(deny=["pay"]))
    assert [each.name for each in runtime.view("pay")] == []
    assert (await runtime.call("pay", {"to": "ann"})).error == "unknown_tool"


async def test_an_approval_under_the_old_rules_no_longer_counts() -> None:
    runtime = Runtime(
        provider=ScriptedProvider([call("pay", {"to": "ann"}), say("done")]),
        sources=[pay],
        policy=CedarPolicy(ask=["pay"]),
    )
    paused = await runtime.run("pay ann")
    (approval,) = await runtime.approvals.list("default")
    await runtime.approvals.answer("default", approval.id, approved=True)
    runtime.change_policy(CedarPolicy(ask=["pay", "send_*"]))

    assert (await runtime.resume(paused.run_id)).status == "pending"
