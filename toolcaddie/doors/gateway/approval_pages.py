"""The paths of questions to people: they list the questions, show one, and take answers.

Questions of one run stand together, because its calls wait for all of them. What a person may not see answers 404
(`doors/asked.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from toolcaddie.control.approvers import Answered, JudgedApprovals
from toolcaddie.core.approval import Approval
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import Problem
from toolcaddie.doors.asked import LONGEST_REASON, STATUSES, by_run, question_json, state_of, visible_approval
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.json_pages import JsonPages, answer_json
from toolcaddie.doors.gateway.listing import query_of
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.router import Caller, Route

PATH = "/approvals"
_LARGEST_LIST = 1_000

T = TypeVar("T")


class OneAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /approvals/{id}`."""

    approved: bool
    reason: Annotated[str, Meta(max_length=LONGEST_REASON)] = ""


class Answers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /approvals`: answers by the id of the question."""

    answers: Annotated[Mapping[str, bool], Meta(min_length=1, max_length=_LARGEST_LIST)]
    reason: Annotated[str, Meta(max_length=LONGEST_REASON)] = ""


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
        state = state_of(status)
        if not (limit.isdecimal() and 0 < len(limit) < 10 and 0 < int(limit) <= _LARGEST_LIST):
            raise RequestError(f"'limit' must be a number from 1 to {_LARGEST_LIST:,}", param="limit")
        person = self._pages.person(caller)
        approvals = await self._approvals.shown_to(person, status=state, limit=int(limit))
        await answer_json(exchange, {"object": "list", "data": _groups(approvals)})

    async def _show(self, exchange: Exchange, caller: Caller) -> None:
        approval = await visible_approval(self._approvals, exchange.part, self._pages.person(caller))
        await answer_json(exchange, question_json(approval))

    async def _answer(self, exchange: Exchange, caller: Caller) -> None:
        body = await self._read(exchange, OneAnswer)
        if body is None:
            return
        person = self._pages.person(caller)
        await visible_approval(self._approvals, exchange.part, person)
        answered = await self._approvals.answer(
            person.tenant, exchange.part, approved=body.approved, by=person, reason=body.reason
        )
        await answer_json(exchange, question_json(answered))

    async def _answer_all(self, exchange: Exchange, caller: Caller) -> None:
        body = await self._read(exchange, Answers)
        if body is None:
            return
        person = self._pages.person(caller)
        for approval_id in body.answers:
            await visible_approval(self._approvals, approval_id, person)
        outcomes = await self._approvals.answer_all(person.tenant, body.answers, by=person, reason=body.reason)
        await answer_json(exchange, {"object": "list", "data": [_outcome(outcome) for outcome in outcomes]})

    async def _read(self, exchange: Exchange, kind: type[T]) -> T | None:
        return await self._pages.read(exchange, kind, example=_EXAMPLES[kind])


_EXAMPLES: Mapping[Any, str] = {
    OneAnswer: 'send {"approved": true, "reason": "agreed by phone"}',
    Answers: 'send {"answers": {"approval_0123": true, "approval_4567": false}, "reason": "agreed by phone"}',
}


def _groups(approvals: Iterable[Approval]) -> list[JsonObject]:
    """Returns the questions of each run together, with what they have in common."""
    return [
        {"run_id": run_id, "asked_by": questions[0].principal.id, "approvals": list(map(question_json, questions))}
        for run_id, questions in by_run(approvals).items()
    ]


def _outcome(outcome: Answered) -> JsonObject:
    if outcome.approval is None:
        return {"id": outcome.id, "error": {"message": outcome.problem, "code": "approval_closed"}}
    return question_json(outcome.approval)


def _refusal(error: RequestError, _caller: Caller) -> Problem:
    status = STATUSES.get(error.code, 400)
    return problem(status, str(error), kind="invalid_request_error", param=error.param, code=error.code)
