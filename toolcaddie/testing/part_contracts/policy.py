"""Checks of a policy, which decides the tools a caller sees and the calls that run. Any decision passes; its form is tested.

Part of the contract suite `POLICY` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import numpy as np

from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.run import RunState
from toolcaddie.core.tool import ToolCall
from toolcaddie.ports import Policy
from toolcaddie.testing.contract import Checks, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import CATALOG, DELETE, Subject, context

CHECKS: Checks[Subject[Policy]] = Checks()

_PRINCIPALS = (Principal(), Principal(tenant="acme", id="ann", role="admin"), Principal(tenant="acme", id="guest"))


def _request(principal: Principal) -> CallRequest:
    return CallRequest(
        call=ToolCall(id="call_1", name=DELETE.name, arguments="{}"),
        tool=DELETE,
        arguments={},
        context=context(principal),
        state=RunState(run_id="contract"),
    )


@CHECKS.add()
async def its_version_names_the_rules_as_they_stand(subject: Subject[Policy]) -> None:
    policy = subject.make()
    expect(isinstance(policy.version, str) and bool(policy.version), f"the version is {policy.version!r}")
    expect_equal(subject.make().version, policy.version, "the version of a second policy with the same rules")


@CHECKS.add()
async def what_is_visible_is_a_mask_over_the_catalog_or_nothing(subject: Subject[Policy]) -> None:
    policy = subject.make()
    for principal in _PRINCIPALS:
        mask: object = policy.visible(CATALOG, principal)  # a mask made of numpy is accepted too
        if isinstance(mask, bytes):
            expect_equal(len(mask), len(CATALOG), f"the number of bytes in the mask for {principal.id or 'no one'}")
        elif mask is not None:
            expect_equal(np.asarray(mask).shape, (len(CATALOG),), f"the mask for {principal.id or 'no one'}")
            expect_equal(np.asarray(mask).dtype, np.dtype(bool), "the type of the mask")


@CHECKS.add()
async def every_call_gets_a_decision_under_its_version(subject: Subject[Policy]) -> None:
    policy = subject.make()
    for principal in _PRINCIPALS:
        decision = await policy.decide(_request(principal))
        expect(isinstance(decision, Decision), f"decide() returned a {type(decision).__name__}, not a Decision")
        expect(decision.verdict in ("allow", "deny", "ask"), f"the verdict is {decision.verdict!r}")
        expect_equal(decision.policy_version, policy.version, "the version in the decision")


@CHECKS.add()
async def a_refusal_or_a_question_says_why(subject: Subject[Policy]) -> None:
    for principal in _PRINCIPALS:
        decision = await subject.make().decide(_request(principal))
        expect(
            decision.verdict == "allow" or bool(decision.reason or decision.rule),
            f"the verdict is {decision.verdict!r}, without a reason or a rule",
        )


@CHECKS.add()
async def the_same_request_gets_the_same_decision(subject: Subject[Policy]) -> None:
    policy = subject.make()
    first, second = await policy.decide(_request(_PRINCIPALS[1])), await policy.decide(_request(_PRINCIPALS[1]))
    expect_equal(second.verdict, first.verdict, "the verdict of the same request")
