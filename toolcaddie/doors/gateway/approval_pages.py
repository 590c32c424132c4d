"""The paths of questions to people: they list the questions, show one, and take answers.

Questions of one run stand together, because its calls wait for all of them. A person sees the questions that the person may
approve, and those about the person's own calls. Any other question answers 404, so nobody learns of tools that are hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

from toolcaddie.control.approvers import Answered, JudgedApprovals
from toolcaddie.core.approval import Approval, ApprovalStatus
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.json_pages import JsonPages, answer_json
from toolcaddie.doors.gateway.listing import query_of
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.router import Caller, Route

PATH = "/approvals"
_LARGEST_LIST = 1_000
_STATUSES: Mapping[str, int] = {"unknown_approval": 404, "approval_closed": 409, "may_not_approve": 403}
_FOR_RULES = ("subject", "restrictions_kept")
"""Fields of a question that only rules need."""
_STATES = (*get_args(ApprovalStatus), "all")

T = TypeVar("T")


class OneAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /approvals/{id}`."""

    approved: bool
    reason: Annotated[str, Meta(max_length=2_000)] = ""


class Answers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /approvals`: answers by the id of the question."""

    answers: Annotated[Mapping[str, bool], Meta(min_length=1, max_length=_LARGEST_LIST)]
    reason: Annotated[str, Meta(max_length=2_000)] = ""


class ApprovalPages:
    """Answers requests about questions to people."""

    def __init__(self, approvals: JudgedApprovals, pages: JsonPages) -> None:
        self._approvals = approvals
        self._pages = pages

    @property
    def routes(self) -> tuple[Route, ...]:
        one = f"{PATH}/{{id}}"
        route = partial(self._pages.route, refusal=_refusal)
        return (
            route("GET", PATH, self._list),
            route("POST", PATH, self._answer_all),
            route("GET", one, self._show),
            route("POST", one, self._answer),
        )

    async def _list(self, exchange: Exchange, caller: Caller) -> None:
        query = query_of(exchange)
        status, limit = query.get("status", "open"), query.get("limit", "100")
        if status not in _STATES:
            raise RequestError(f"'status' is {status[:40]!r}; it can be {', '.join(_STATES)}", param="status")
        if not (limit.isdecimal() and 0 < len(limit) < 10 and 0 < int(limit) <= _LARGEST_LIST):
            raise RequestError(f"'limit' must be a number from 1 to {_LARGEST_LIST:,}", param="limit")
        state: Any = None if status == "all" else status
        person = self._pages.person(caller)
        approvals = await self._approvals.shown_to(person, status=state, limit=int(limit))
        await answer_json(exchange, {"object": "list", "data": _by_run(approvals)})

    async def _show(self, exchange: Exchange, caller: Caller) -> None:
        approval = await self._seen(exchange.part, self._pages.person(caller))
        await answer_json(exchange, _shown(approval))

    async def _answer(self, exchange: Exchange, caller: Caller) -> None:
        body = await self._read(exchange, OneAnswer)
        if body is None:
            return
        person = self._pages.person(caller)
        await self._seen(exchange.part, person)
        answered = await self._approvals.answer(
            person.tenant, exchange.part, approved=body.approved, by=person, reason=body.reason
        )
        await answer_json(exchange, _shown(answered))

    async def _answer_all(self, exchange: Exchange, caller: Caller) -> None:
        body = await self._read(exchange, Answers)
        if body is None:
            return
        person = self._pages.person(caller)
        for approval_id in body.answers:
            await self._seen(approval_id, person)
        outcomes = await self._approvals.answer_all(person.tenant, body.answers, by=person, reason=body.reason)
        await answer_json(exchange, {"object": "list", "data": [_outcome(outcome) for outcome in outcomes]})

    async def _seen(self, approval_id: str, person: Principal) -> Approval:
        """Returns a question that this person may see. Raises `RequestError` for any other."""
        approval = await self._approvals.get(person.tenant, approval_id)
        if approval is None or not self._approvals.may_see(approval, person):
            message = f"there is no approval {approval_id[:80]!r} that {person.id} may see"
            raise RequestError(message, param="approval", code="unknown_approval")
        return approval

    async def _read(self, exchange: Exchange, kind: type[T]) -> T | None:
        return await self._pages.read(exchange, kind, example=_EXAMPLES[kind])


_EXAMPLES: Mapping[Any, str] = {
    OneAnswer: 'send {"approved": true, "reason": "agreed by phone"}',
    Answers: 'send {"answers": {"approval_0123": true, "approval_4567": false}, "reason": "agreed by phone"}',
}


def _by_run(approvals: Iterable[Approval]) -> list[JsonObject]:
    """Returns the questions of each run together, with what they have in common."""
    runs: dict[str, list[Approval]] = {}
    for approval in approvals:
        runs.setdefault(approval.run_id, []).append(approval)
    return [
        {"run_id": run_id, "asked_by": questions[0].principal.id, "approvals": list(map(_shown, questions))}
        for run_id, questions in runs.items()
    ]


def _outcome(outcome: Answered) -> JsonObject:
    if outcome.approval is None:
        return {"id": outcome.id, "error": {"message": outcome.problem, "code": "approval_closed"}}
    return _shown(outcome.approval)


def _shown(approval: Approval) -> JsonObject:
    """Returns a question as JSON, without what only rules need."""
    shown = msgspec.to_builtins(approval)
    return {"object": "approval", **{name: value for name, value in shown.items() if name not in _FOR_RULES}}


def _refusal(error: RequestError, _caller: Caller) -> Problem:
    status = _STATUSES.get(error.code, 400)
    return problem(status, str(error), kind="invalid_request_error", param=error.param, code=error.code)
