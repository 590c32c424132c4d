"""Checks of an approver, which answers whether a call may run: yes, no, or None if nobody has decided yet.

Part of the contract suite `APPROVER` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import asyncio

from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.ports import Approver
from toolcaddie.testing.contract import Checks, expect
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[Approver]] = Checks()


def question(number: int = 1) -> Approval:
    """Returns a question that nobody has answered yet: whether a call that deletes a client may run."""
    return Approval(
        id=f"approval_{number}",
        run_id="contract",
        call_id=f"call_{number}",
        tool="delete_client",
        arguments={"client_id": number},
        digest=f"digest-{number}",
        policy_version="contract",
        principal=Principal(tenant="acme", id="ann"),
        created=0.0,
        expires=3_600.0,
    )


@CHECKS.add()
async def its_answer_is_yes_no_or_not_yet(subject: Subject[Approver]) -> None:
    answer = await subject.make().approve(question())
    expect(
        answer is True or answer is False or answer is None, f"it answered {answer!r} instead of True, False or None"
    )


@CHECKS.add()
async def the_question_stays_as_it_was(subject: Subject[Approver]) -> None:
    approval = question()
    await subject.make().approve(approval)
    expect(approval == question(), "it changed the question it was given")


@CHECKS.add()
async def questions_side_by_side_are_all_answered(subject: Subject[Approver]) -> None:
    approver = subject.make()
    pending = [asyncio.ensure_future(approver.approve(question(number))) for number in range(4)]
    done, waiting = await asyncio.wait(pending, timeout=10)
    for task in waiting:
        task.cancel()
    expect(not waiting, f"{len(waiting)} of 4 questions got no answer, not even None, within 10 s")
    for task in done:
        task.result()
