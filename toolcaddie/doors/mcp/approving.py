"""Asks the person at an MCP client about a call that needs an approval (`mcp.approve = "client"`), and answers the question.

The question is stored as every question is, so it can also be answered elsewhere, counts for one call with exactly its arguments,
and is bound to the version of the policy. Who may approve is judged as for every person: the one at the client of `ann` is
`mcp client of ann`. Without an answer the question stays in the inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from toolcaddie.control.approvers import JudgedApprovals
from toolcaddie.core.approval import Approval
from toolcaddie.core.client import AnswerPending, CallerClient, ClientError, Elicit
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.events import RunEvent, RunPaused
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.doors.arguments import argument_texts
from toolcaddie.util.text import visible_line

_ASKED = "toolcaddie: asks about"
"""The note with the id of the question that a client was sent."""
_LONGEST = 8_000
"""The largest number of characters of a question. A longer one is not shortened, because a person must see every argument."""
_SECONDS = 300.0
"""Seconds for which a call waits for the person at a client with a session."""
_FORM = {"type": "object", "properties": {}}

Answer = Literal["approved", "refused", "none"]
Call = Callable[[Callable[[RunEvent], Awaitable[None]]], Awaitable[ToolResult]]
"""Makes the call, and passes its events to a function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approving:
    """Asks the person at the client of one call. `principal`: the one in whose name the client calls."""

    approvals: JudgedApprovals
    client: CallerClient
    principal: Principal

    async def called(self, call: Call) -> ToolResult:
        """Returns the result of a call. If it waits for a person, asks the one at the client, and calls again once approved."""
        earlier = self.client.notes.pop(_ASKED, None)
        answer: Answer = "none"
        if isinstance(earlier, str):  # this attempt brings the answer to the question of the last one
            answer = await self._answer(earlier)
            if answer == "refused":
                return _refused()
        result, waiting = await _called(call)
        if waiting is None or isinstance(earlier, str):
            return result
        answer = await self._answer(waiting)
        if answer == "refused":
            return _refused()
        return (await _called(call))[0] if answer == "approved" else result

    async def _answer(self, approval_id: str) -> Answer:
        """Asks about a call, records the answer and returns it; "none": nobody answered, so it stays in the inbox."""
        tenant, person = self.principal.tenant, self._person()
        approval = await self.approvals.get(tenant, approval_id)
        if approval is None or approval.status != "open" or not self.client.can("elicitation"):
            return "none"
        message = _message(approval)
        if len(message) > _LONGEST or not self._may_approve(approval, person):
            return "none"
        action = await self._asked(approval_id, message)
        if action not in ("accept", "decline"):
            return "none"
        approved = action == "accept"
        try:
            await self.approvals.answer(tenant, approval_id, approved=approved, by=person)
        except RequestError:  # answered elsewhere, expired, or no longer this person's to approve
            return "none"
        return "approved" if approved else "refused"

    async def _asked(self, approval_id: str, message: str) -> str:
        """Returns what the person did; empty: the client did not answer. Raises `AnswerPending` if the client answers with
        another attempt."""
        key = f"approve {approval_id}"
        try:
            async with asyncio.timeout(_SECONDS):
                answers = await self.client.ask({key: Elicit(message=message, schema=_FORM)})
        except AnswerPending:
            self.client.notes[_ASKED] = approval_id
            raise
        except (ClientError, TimeoutError):
            return ""
        return str(answers[key].get("action"))

    def _may_approve(self, approval: Approval, person: Principal) -> bool:
        try:
            self.approvals.check(approval, person, approved=True)
        except RequestError:
            return False
        return True

    def _person(self) -> Principal:
        """Returns the person at the client, who has no role and no bot."""
        return Principal(id=f"mcp client of {self.principal.id}", tenant=self.principal.tenant, channel="mcp")


async def _called(call: Call) -> tuple[ToolResult, str | None]:
    """Makes a call. Returns its result, and the id of the question for which it waits, if it does."""
    waiting: list[str] = []

    async def follow(event: RunEvent) -> None:
        if isinstance(event, RunPaused):
            waiting.extend(item.approval for item in event.state.pending if item.waiting == "approval")

    result = await call(follow)
    return result, waiting[0] if waiting else None


def _message(approval: Approval) -> str:
    """Returns a question in words: the tool, the exact arguments, the reason, and what was read before."""
    lines = [
        f"May {visible_line(approval.tool)} run? {visible_line(approval.reason or approval.rule)}",
        "",
        "Arguments:",
    ]
    lines += [f"  {name}: {text}" for name, text in argument_texts(approval)]
    if not approval.arguments:
        lines.append("  none")
    if approval.preview:
        lines += ["", "It would do this:", *map(visible_line, approval.preview.splitlines())]
    if approval.taint:
        lines += ["", f"Read before, with content of strangers: {', '.join(map(visible_line, approval.taint))}"]
    return "\n".join([*lines, "", "Accept: it runs once, with exactly these arguments. Decline: it does not run."])


def _refused() -> ToolResult:
    return failed("A person did not approve this call.", "denied")
