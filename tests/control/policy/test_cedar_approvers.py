"""Rules for the people who may approve calls."""

from __future__ import annotations

from typing import Any

import pytest

from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.control.policy.every import EveryPolicy
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.ports import Policy
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

ANN = Principal(id="ann", role="staff")
MIA = Principal(id="mia", role="manager")
LEO = Principal(id="leo", role="lead")
BIG = """
@reason("amounts over 100 are for managers")
forbid (principal, action == Action::"approve", resource == Tool::"pay")
when { context.arguments.amount.greaterThan(decimal("100.0")) } unless { principal in Role::"manager" };
"""


@tool(destructive=True, category="money", tags=("outside",))
def pay(amount: float) -> str:
    """Pay an amount."""
    return f"paid {amount}"


async def question(policy: Policy, amount: float = 500, asker: Principal = ANN) -> tuple[Runtime, Approval]:
    """Returns a runtime with a question of Ann's."""
    provider = ScriptedProvider([call("pay", {"amount": amount}), say("done")])
    runtime = Runtime(provider=provider, sources=[pay], policy=policy)
    assert (await runtime.run("pay", principal=asker)).status == "pending"
    (approval,) = await runtime.approvals.list("default")
    return runtime, approval


async def refusal(policy: Policy, person: Principal, amount: float = 500, asker: Principal = ANN) -> str:
    """Returns why a person may not approve a call; empty: the person may."""
    runtime, approval = await question(policy, amount, asker)
    try:
        await runtime.approvals.answer("default", approval.id, approved=True, by=person)
    except RequestError as error:
        (approval,) = await runtime.approvals.list("default")
        return f"{error.code} {approval.status}: {error}"
    return ""


@pytest.mark.parametrize(
    ("approvers", "may"),
    [
        (None, True),
        (["mia"], True),
        (["role:manager"], True),
        (["leo", "role:manager"], True),
        (["leo"], False),
        (["manager"], False),
        ([], False),
    ],
)
async def test_the_settings_name_approvers_by_id_or_role(approvers: Any, may: bool) -> None:
    problem = await refusal(CedarPolicy(approvers=approvers), MIA)
    reason = "mia may not approve calls of pay (rule approvers: the settings name"
    assert (problem == "", problem.startswith("may_not_approve open: ") and reason in problem) == (may, not may)


@pytest.mark.parametrize("name", ["", "role:", "role: manager"])
def test_a_name_that_is_nobody_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="names nobody; write the id of a principal, or role:NAME"):
        CedarPolicy(approvers=[name])


@pytest.mark.parametrize(("person", "amount", "may"), [(MIA, 500, True), (LEO, 500, False), (LEO, 100, True)])
async def test_a_rule_sees_the_arguments(person: Principal, amount: float, may: bool) -> None:
    problem = await refusal(CedarPolicy(text=BIG), person, amount)
    assert problem == "" if may else "amounts over 100 are for managers" in problem


@pytest.mark.parametrize(
    ("condition", "may"),
    [
        ('context.asker.role == "staff"', False),
        ('context.asker.id == "mia"', True),
        ("context.tainted", True),
        ('resource in Category::"money"', False),
        ('resource.tags.contains("outside")', False),
        ("resource.read_only", True),
        ("context.asker.missing", False),  # a rule that cannot be evaluated lets nobody approve
    ],
)
async def test_a_rule_sees_the_tool_and_who_asked(condition: str, may: bool) -> None:
    rule = f'forbid (principal, action == Action::"approve", resource) when {{ {condition} }};'
    assert (await refusal(CedarPolicy(text=rule), MIA) == "") is may


async def test_a_policy_that_has_judged_one_answer_judges_the_next_by_itself() -> None:
    rule = 'forbid (principal, action == Action::"approve", resource) when { context.asker.role == "staff" };'
    policy, other = CedarPolicy(text=rule), Principal(id="ada", role="guest")
    for _ in range(2):
        assert await refusal(policy, MIA) != ""
        assert await refusal(policy, MIA, asker=other) == ""
    amounts = CedarPolicy(text=BIG)
    assert [await refusal(amounts, LEO, amount) == "" for amount in (100, 500, 50)] == [True, False, True]


async def test_arguments_that_no_rule_looks_at_decide_about_no_other_question() -> None:
    policy = CedarPolicy()
    _, approval = await question(policy)
    unreadable = replace(approval, arguments={"amount": "\ud800"}, effects=("\ud800",))  # no JSON text for Cedar
    assert policy.approver_decision(unreadable, MIA).verdict == "allow"
    assert policy.approver_decision(approval, MIA).verdict == "allow"
    assert CedarPolicy(text=BIG).approver_decision(unreadable, MIA).verdict == "deny"


async def test_without_the_shipped_rules_nobody_approves_until_a_rule_permits_it() -> None:
    calls = 'permit (principal, action in [Action::"see", Action::"call"], resource);'
    assert "no rule allows it" in await refusal(CedarPolicy(text=calls, defaults=False), MIA)
    approve = 'permit (principal in Role::"manager", action == Action::"approve", resource);'
    assert await refusal(CedarPolicy(text=calls + approve, defaults=False), MIA) == ""


async def test_nobody_approves_a_call_of_their_own_in_another_role_or_through_another_door() -> None:
    other = Principal(id="ann", role="manager", bot="desk", channel="gateway")
    assert "nobody approves a call of their own" in await refusal(CedarPolicy(), other)
    assert "nobody approves a call of their own" in await refusal(EveryPolicy(CedarPolicy(), AllowAll()), other)


async def test_every_policy_that_has_rules_for_approvers_must_agree() -> None:
    managers, everybody = CedarPolicy(approvers=["role:manager"]), CedarPolicy()
    assert await refusal(EveryPolicy(everybody, AllowAll(), managers), MIA) == ""
    assert "the settings name other approvers" in await refusal(EveryPolicy(everybody, managers), LEO)


async def test_other_approvers_do_not_void_the_questions_that_are_open() -> None:
    runtime, approval = await question(CedarPolicy())
    assert CedarPolicy(approvers=["mia"], text=BIG).version == approval.policy_version
    await runtime.close()


async def test_the_application_itself_answers_without_a_person() -> None:
    runtime, approval = await question(CedarPolicy(approvers=[]))
    assert (await runtime.approvals.answer("default", approval.id, approved=True)).status == "approved"
