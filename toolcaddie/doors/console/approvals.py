"""The section of questions about calls: those that wait, those that were answered, and what a person needs to decide."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence

from toolcaddie.control.approvers import JudgedApprovals
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.doors.asked import LONGEST_REASON, STATES, by_run, question_json, state_of, visible_approval
from toolcaddie.doors.console.answers import Answer, redirect
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.doors.tool_sheets import DiffLine, diff_lines

PATH = f"{HOME}approvals"
_PAGE = 40
"""Number of questions on a page; a form has at most 50 fields."""
_CHOSEN = "answer-"
"""Beginning of the names of the boxes with which several questions are chosen."""
_DONE = {
    "approved": "Approved. The call runs when its run goes on.",
    "refused": "Refused. The model is told so when its run goes on.",
    "some": "Somebody else had answered some of them a moment before; all others are answered.",
}
"""Sentences that a page shows after an answer, by the word in its address."""


def approvals_section(approvals: JudgedApprovals) -> Section:
    """Returns the section."""
    return Section(title="Approvals", path=PATH, routes=lambda renderer: _Approvals(approvals, renderer).routes)


class _Approvals:
    def __init__(self, approvals: JudgedApprovals, renderer: Renderer) -> None:
        self._approvals = approvals
        self._renderer = renderer

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (
            PageRoute(method="GET", path=PATH, handle=self._list),
            PageRoute(method="POST", path=f"{PATH}/answer", handle=self._answer_chosen),
            PageRoute(method="GET", path=f"{PATH}/{{id}}", handle=self._show),
            PageRoute(method="POST", path=f"{PATH}/{{id}}/answer", handle=self._answer),
        )

    async def _list(self, visit: Visit) -> Answer:
        status = visit.request.query.get("status", "open")
        tool = visit.request.query.get("tool", "")
        state = state_of(status)
        shown = await self._approvals.shown_to(
            visit.person, status=state, tool=tool, newest_first=state != "open", limit=_PAGE + 1
        )
        runs = by_run(shown[:_PAGE])
        data = {"runs": {run_id: list(map(question_json, each)) for run_id, each in runs.items()}, "status": status}
        return self._renderer.page(
            "approvals/list.html",
            visit,
            data,
            questions=runs,
            arguments={each.id: _arguments(each) for each in shown},
            objections={each.id: self._objection(each, visit.person) for each in shown if each.status == "open"},
            states=STATES,
            tool=tool,
            has_more=len(shown) > _PAGE,
            most=_PAGE,
            chosen=_CHOSEN,
            path=PATH,
            longest_reason=LONGEST_REASON,
            done=_DONE.get(visit.request.query.get("done", ""), ""),
        )

    async def _show(self, visit: Visit) -> Answer:
        approval = await visible_approval(self._approvals, visit.part, visit.person)
        earlier = await self._earlier(approval, visit.person)
        objection = self._objection(approval, visit.person) if approval.status == "open" else ""
        data = {
            "approval": question_json(approval),
            "earlier": None if earlier is None else question_json(earlier),
            "objection": objection,
        }
        return self._renderer.page(
            "approvals/question.html",
            visit,
            data,
            question=approval,
            before=earlier,
            arguments=_arguments(approval),
            diff=_difference(earlier, approval),
            preview=diff_lines(approval.preview) if approval.preview.startswith("---") else (),
            is_own=approval.principal.owner == visit.person.owner,
            path=PATH,
            longest_reason=LONGEST_REASON,
            done=_DONE.get(visit.request.query.get("done", ""), ""),
        )

    async def _answer(self, visit: Visit) -> Answer:
        approved = _verdict(visit.form)
        approval = await visible_approval(self._approvals, visit.part, visit.person)
        await self._approvals.answer(
            visit.person.tenant, approval.id, approved=approved, by=visit.person, reason=_reason(visit.form)
        )
        return redirect(f"{PATH}/{approval.id}?done={'approved' if approved else 'refused'}")

    async def _answer_chosen(self, visit: Visit) -> Answer:
        approved = _verdict(visit.form)
        chosen = [name.removeprefix(_CHOSEN) for name in visit.form if name.startswith(_CHOSEN)]
        if not chosen:
            raise RequestError("no question is chosen; mark the boxes of those that you answer", param="answer")
        for each in chosen:
            await visible_approval(self._approvals, each, visit.person)
        outcomes = await self._approvals.answer_all(
            visit.person.tenant, dict.fromkeys(chosen, approved), by=visit.person, reason=_reason(visit.form)
        )
        word = "approved" if approved else "refused"
        return redirect(f"{PATH}?done={'some' if any(each.problem for each in outcomes) else word}")

    def _objection(self, approval: Approval, person: Principal) -> str:
        """Returns why the person may not approve this call; empty: the person may."""
        try:
            self._approvals.check(approval, person, approved=True)
        except RequestError as error:
            return str(error)
        return ""

    async def _earlier(self, approval: Approval, person: Principal) -> Approval | None:
        """Returns the last question about the same tool before this one, with an answer; None: there is none."""
        shown = await self._approvals.shown_to(person, status=None, tool=approval.tool, newest_first=True, limit=_PAGE)
        before = [each for each in shown if each.created < approval.created and each.answered is not None]
        return next(iter(before), None)


def _verdict(form: Mapping[str, str]) -> bool:
    verdict = form.get("verdict", "")
    if verdict not in ("approve", "refuse"):
        raise RequestError("the form does not say whether to approve or to refuse", param="verdict")
    return verdict == "approve"


def _reason(form: Mapping[str, str]) -> str:
    reason = form.get("reason", "").strip()
    if len(reason) > LONGEST_REASON:
        raise RequestError(f"a reason has at most {LONGEST_REASON:,} characters", param="reason")
    return reason


def _arguments(approval: Approval) -> str:
    return _pretty(approval.arguments)


def _pretty(arguments: JsonObject) -> str:
    return json.dumps(arguments, indent=2, ensure_ascii=False, sort_keys=True)


def _difference(earlier: Approval | None, approval: Approval) -> Sequence[DiffLine]:
    """Returns what is different from the arguments of an earlier call of the tool."""
    if earlier is None:
        return ()
    before, after = (_pretty(each.arguments).splitlines() for each in (earlier, approval))
    lines = difflib.unified_diff(before, after, "the last call that was asked about", "this call", lineterm="")
    return diff_lines("\n".join(lines))
