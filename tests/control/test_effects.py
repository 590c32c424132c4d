"""Effects that a source states for a call: rules hold for the effect, whichever tool has it, and a source can have a person
asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.databases import new_url
from toolcaddie.audit.trail import Trail
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.control.policy.cedar.short_forms import Restrictions
from toolcaddie.core.assessment import Assessment
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import CallDecided, RunEvent
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import ToolAnnotations
from toolcaddie.ports import Policy
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

ANN = Principal(id="ann", tenant="house")
BOSS = Principal(id="boss", tenant="house")
NO_SSHD_STOP = """
@id("keep-sshd")
@reason("the host must stay reachable")
forbid (principal, action == Action::"call", resource)
when { context.effects.contains("systemd.stop sshd.service") };
"""
HARMLESS = ToolAnnotations(read_only=False, destructive=False)


class Host:
    """Two tools with one effect: one that stops a unit, and one that runs a command line."""

    def __init__(self, *, question: str = "", effects: Mapping[str, Any] | None = None) -> None:
        self.done: list[str] = []
        self.question = question
        self.effects = effects or {}
        """Effects by unit, in place of the right ones."""

    def source(self) -> FunctionSource:
        @tool
        def stop_unit(unit: str) -> str:
            """Stop a unit."""
            self.done.append(f"stop {unit}")
            return "stopped"

        @tool
        def run_line(line: str) -> str:
            """Run a command line."""
            self.done.append(line)
            return "done"

        return FunctionSource("host", [stop_unit, run_line], assess=self.assess)

    async def assess(self, name: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        verb, _, unit = arguments.get("line", f"stop {arguments.get('unit')}").removeprefix("systemctl ").partition(" ")
        effects = self.effects.get(unit, (f"systemd.{verb} {unit}.service",))
        return Assessment(annotations=HARMLESS, effects=effects, question=self.question)


def host(made: Host, *script: Any, policy: Policy | None = None, **options: Any) -> Runtime:
    provider = ScriptedProvider([*script, say("finished"), say("finished")])
    return Runtime(provider=provider, sources=[made.source()], policy=policy or CedarPolicy(), **options)


def stop(unit: str) -> Any:
    return call("stop_unit", {"unit": unit}, call_id="c1")


@pytest.mark.parametrize(
    "step", [stop("sshd"), call("run_line", {"line": "systemctl stop sshd"})], ids=["the tool", "a command"]
)
async def test_a_rule_about_an_effect_holds_whichever_tool_has_it(step: Any) -> None:
    made = Host()
    async with host(made, step, policy=CedarPolicy(text=NO_SSHD_STOP)) as runtime:
        result = await runtime.run("go", principal=ANN)
    assert result.messages[1].text == "Not allowed: the host must stay reachable."
    assert made.done == []


async def test_calls_of_one_tool_are_judged_each_by_its_own_effects() -> None:
    made = Host()
    step = calls(*(("stop_unit", {"unit": unit}) for unit in ("nginx", "sshd", "redis")))
    async with host(made, step, policy=CedarPolicy(text=NO_SSHD_STOP)) as runtime:
        await runtime.run("go", principal=ANN)
        await runtime.run("go again", principal=ANN)
    assert made.done == ["stop nginx", "stop redis"]


@pytest.mark.parametrize("name", ["systemd.stop sshd.service", "systemd.stop", "systemd.*", "*sshd*"])
async def test_the_settings_name_an_effect_its_kind_or_a_pattern(name: str) -> None:
    made = Host()
    async with host(made, stop("sshd"), policy=CedarPolicy(deny_effects=[name])) as runtime:
        await runtime.run("go", principal=ANN)
    async with host(made, stop("sshd"), policy=CedarPolicy(ask_effects=[name])) as runtime:
        asked = await runtime.run("go", principal=ANN)
    assert (asked.status, made.done) == ("pending", [])


@pytest.mark.parametrize(
    "name", ["systemd.start", "systemd", "stop", "sshd.service", "ovs.*", "systemd.stop nginx.service"]
)
async def test_another_effect_is_not_meant(name: str) -> None:
    made = Host()
    async with host(made, stop("sshd"), policy=CedarPolicy(deny_effects=[name])) as runtime:
        await runtime.run("go", principal=ANN)
    assert made.done == ["stop sshd"]


async def test_effects_are_restricted_for_one_role() -> None:
    made = Host()
    rules = CedarPolicy(roles={"guest": Restrictions(deny_effects=("systemd.stop",))})
    async with host(made, stop("sshd"), policy=rules) as runtime:
        await runtime.run("go", principal=Principal(id="gus", role="guest"))
    assert made.done == []
    async with host(made, stop("sshd"), policy=rules) as runtime:
        await runtime.run("go", principal=Principal(id="ann", role="admin"))
    assert made.done == ["stop sshd"]


def test_an_effect_with_blanks_around_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="blanks"):
        CedarPolicy(deny_effects=[" systemd.stop"])


async def test_a_call_without_effects_passes_rules_about_them() -> None:
    made = Host(effects={"sshd": ()})
    async with host(made, stop("sshd"), policy=CedarPolicy(text=NO_SSHD_STOP)) as runtime:
        await runtime.run("go", principal=ANN)
    assert made.done == ["stop sshd"]


@pytest.mark.parametrize("effects", ["systemd.stop sshd.service", ["systemd.stop"], (1,), None])
async def test_effects_that_rules_cannot_read_refuse_the_call(effects: Any) -> None:
    made = Host()
    made.effects = {"sshd": effects}
    async with host(made, stop("sshd")) as runtime:
        result = await runtime.run("go", principal=ANN)
    assert "stop_unit cannot judge this call" in result.messages[1].text
    assert made.done == []


@pytest.mark.parametrize("policy", [AllowAll(), CedarPolicy()], ids=["allow all", "cedar"])
async def test_a_source_has_a_person_asked_although_the_policy_allows_the_call(policy: Policy) -> None:
    made, events = Host(question="nobody can log in after that"), list[RunEvent]()

    class Sink:
        async def emit(self, event: RunEvent) -> None:
            events.append(event)

    async with host(made, stop("sshd"), policy=policy, sinks=[Sink()]) as runtime:
        paused = await runtime.run("go", principal=ANN)
        [approval] = await runtime.approvals.list("house", status="open")
        assert (paused.status, made.done) == ("pending", [])
        assert (approval.reason, approval.rule) == ("nobody can log in after that", "source")
        assert approval.preview == "effect: systemd.stop sshd.service"
        await runtime.approvals.answer("house", approval.id, approved=True, by=BOSS)
        result = await runtime.resume(paused.run_id)
    assert (result.status, made.done) == ("completed", ["stop sshd"])
    decided = [event for event in events if isinstance(event, CallDecided)]
    assert {(each.decision.verdict, each.decision.rule, each.effects) for each in decided} == {
        ("ask", "source", ("systemd.stop sshd.service",))
    }


async def test_a_refused_question_of_the_source_is_a_refusal() -> None:
    made = Host(question="nobody can log in after that")
    async with host(made, stop("sshd")) as runtime:
        paused = await runtime.run("go", principal=ANN)
        result = await runtime.resume(paused.run_id, approvals={"c1": False})
    assert (result.status, made.done) == ("completed", [])


async def test_the_source_asks_also_under_a_policy_that_came_after_the_question() -> None:
    made = Host(question="nobody can log in after that")
    async with host(made, stop("sshd")) as runtime:
        paused = await runtime.run("go", principal=ANN)
        [approval] = await runtime.approvals.list("house", status="open")
        await runtime.approvals.answer("house", approval.id, approved=True, by=BOSS)
        runtime.change_policy(AllowAll())
        assert (await runtime.resume(paused.run_id)).status == "pending"
    assert made.done == []


async def test_a_denial_is_not_put_to_a_person() -> None:
    made = Host(question="nobody can log in after that")
    async with host(made, stop("sshd"), policy=CedarPolicy(text=NO_SSHD_STOP)) as runtime:
        result = await runtime.run("go", principal=ANN)
    assert "must stay reachable" in result.messages[1].text


async def test_a_person_whom_the_policy_asks_reads_the_reason_of_the_source_too() -> None:
    made = Host(question="nobody can log in after that")
    async with host(made, stop("sshd"), policy=CedarPolicy(ask=["stop_*"])) as runtime:
        await runtime.run("go", principal=ANN)
        [approval] = await runtime.approvals.list("house", status="open")
    assert approval.reason == "the settings ask about this tool; nobody can log in after that"


@pytest.mark.parametrize("change", ["effects", "question"])
async def test_an_approval_counts_only_for_the_effects_and_the_reason_that_the_person_read(change: str) -> None:
    made = Host(question="it is in use")
    async with host(made, stop("sshd")) as runtime:
        paused = await runtime.run("go", principal=ANN)
        [approval] = await runtime.approvals.list("house", status="open")
        await runtime.approvals.answer("house", approval.id, approved=True, by=BOSS)
        if change == "effects":
            made.effects = {"sshd": ("systemd.stop sshd.service", "systemd.stop nginx.service")}
        else:
            made.question = "it is in use by 200 people"
        assert (await runtime.resume(paused.run_id)).status == "pending"
        [second] = await runtime.approvals.list("house", status="open")
    assert made.done == []
    assert second.id != approval.id


async def test_rules_say_who_may_approve_an_effect() -> None:
    made = Host(question="it is in use")
    rules = """
    forbid (principal, action == Action::"approve", resource)
    when { context.effects.contains("systemd.stop") } unless { principal in Role::"admin" };
    """
    policy = CedarPolicy(text=rules)
    async with host(made, stop("sshd"), policy=policy) as runtime:
        await runtime.run("go", principal=ANN)
        [approval] = await runtime.approvals.list("house", status="open")
    verdicts: Sequence[Decision] = [
        policy.approver_decision(approval, Principal(id="boss", tenant="house", role=role))
        for role in ("staff", "admin")
    ]
    assert [each.verdict for each in verdicts] == ["deny", "allow"]


async def test_the_trail_has_the_effects_of_each_call() -> None:
    made = Host()
    async with (
        Database(new_url()) as database,
        host(made, stop("nginx"), trail=Trail(database.events)) as runtime,
    ):
        result = await runtime.run("go", principal=ANN)
        rows = [each for each in await database.events.events(result.run_id) if each.kind == "call_decided"]
    assert [row.data["effects"] for row in rows] == [["systemd.stop nginx.service"]]
