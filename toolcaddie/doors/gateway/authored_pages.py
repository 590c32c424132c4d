"""The paths of tools that bots wrote: they list the tools, show one, and take the decisions of people.

The person is the owner of the API key. Any tool that this person may neither approve nor has asked for answers 404.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.json_pages import JsonPages, answer_json
from toolcaddie.doors.gateway.listing import query_of
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.router import Caller, Route
from toolcaddie.doors.reviewing import LONGEST_NOTE, STATUSES, Reviews
from toolcaddie.tools.authored.values import AuthoredTool, Status

PATH = "/authored"
_STATES = (*get_args(Status), "all")

T = TypeVar("T")
Note = Annotated[str, Meta(max_length=LONGEST_NOTE)]


class Approving(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /authored/{id}/approve`."""

    digest: Annotated[str, Meta(min_length=1, max_length=200)]
    """That of the state which the person has read."""
    note: Note = ""


class Deciding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /authored/{id}/reject` and `/revoke`."""

    note: Note = ""


class RollingBack(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /authored/{id}/rollback`."""

    version: Annotated[int, Meta(ge=1)]
    note: Note = ""


class AuthoredPages:
    """Answers requests about tools that bots wrote."""

    def __init__(self, reviews: Reviews, pages: JsonPages) -> None:
        self._reviews = reviews
        self._pages = pages

    @property
    def routes(self) -> tuple[Route, ...]:
        one = f"{PATH}/{{id}}"
        route = partial(self._pages.route, refusal=_refusal)
        return (
            route("GET", PATH, self._list),
            route("GET", one, self._show),
            route("DELETE", one, self._delete),
            route("GET", f"{one}/diff", self._diff),
            route("POST", f"{one}/approve", self._approve),
            route("POST", f"{one}/reject", self._reject),
            route("POST", f"{one}/revoke", self._revoke),
            route("POST", f"{one}/rollback", self._rollback),
        )

    async def _list(self, exchange: Exchange, caller: Caller) -> None:
        query = query_of(exchange)
        status = query.get("status", "all")
        if status not in _STATES:
            raise RequestError(f"'status' is {status[:40]!r}; it can be {', '.join(_STATES)}", param="status")
        person = self._pages.person(caller)
        state: Any = None if status == "all" else status
        tools = await self._reviews.list(person, status=state, bot=query.get("bot"))
        broken = await self._reviews.broken(person)
        listed = [_shown(tool, with_source=False) for tool in tools]
        await answer_json(exchange, {"object": "list", "data": listed, "broken": broken})

    async def _show(self, exchange: Exchange, caller: Caller) -> None:
        person = self._pages.person(caller)
        review = await self._reviews.show(person, exchange.part)
        await answer_json(
            exchange,
            {
                **_shown(review.tool),
                "findings": review.findings,
                "diff": review.diff,
                "missing": review.missing,
                "objection": self._reviews.objection(review.tool, person),
            },
        )

    async def _diff(self, exchange: Exchange, caller: Caller) -> None:
        review = await self._reviews.show(self._pages.person(caller), exchange.part)
        answer = {"object": "authored_tool.diff", "id": review.tool.id, "digest": review.tool.digest}
        await answer_json(exchange, {**answer, "diff": review.diff})

    async def _approve(self, exchange: Exchange, caller: Caller) -> None:
        if (body := await self._read(exchange, Approving)) is not None:
            person = self._pages.person(caller)
            tool = await self._reviews.approve(person, exchange.part, digest=body.digest, note=body.note)
            await answer_json(exchange, _shown(tool))

    async def _reject(self, exchange: Exchange, caller: Caller) -> None:
        if (body := await self._read(exchange, Deciding)) is not None:
            tool = await self._reviews.reject(self._pages.person(caller), exchange.part, note=body.note)
            await answer_json(exchange, _shown(tool))

    async def _revoke(self, exchange: Exchange, caller: Caller) -> None:
        if (body := await self._read(exchange, Deciding)) is not None:
            tool = await self._reviews.revoke(self._pages.person(caller), exchange.part, note=body.note)
            await answer_json(exchange, _shown(tool))

    async def _rollback(self, exchange: Exchange, caller: Caller) -> None:
        if (body := await self._read(exchange, RollingBack)) is not None:
            person = self._pages.person(caller)
            tool = await self._reviews.rollback(person, exchange.part, body.version, note=body.note)
            await answer_json(exchange, _shown(tool))

    async def _delete(self, exchange: Exchange, caller: Caller) -> None:
        await self._reviews.delete(self._pages.person(caller), exchange.part)
        await answer_json(exchange, {"object": "authored_tool.deleted", "id": exchange.part, "deleted": True})

    async def _read(self, exchange: Exchange, kind: type[T]) -> T | None:
        return await self._pages.read(exchange, kind, example=_EXAMPLES[kind], empty=b"{}")


_EXAMPLES: Mapping[Any, str] = {
    Approving: 'send {"digest": "...", "note": "read it"} with the digest of the state that you have read',
    Deciding: 'send {"note": "why"}, or nothing',
    RollingBack: 'send {"version": 1, "note": "why"}',
}


def _shown(tool: AuthoredTool, *, with_source: bool = True) -> JsonObject:
    """Returns a tool as JSON."""
    shown = msgspec.to_builtins(tool)
    if not with_source:
        del shown["definition"]["source"]
    return {"object": "authored_tool", **shown}


def _refusal(error: RequestError, caller: Caller) -> Problem:
    message = str(error)
    if error.code == "may_not_approve" and not caller.keyed:
        message += (
            ". A server without API keys cannot tell people apart: make a key for each (toolcaddie keys add NAME), or use "
            "`toolcaddie authored approve`"
        )
    kind = "invalid_request_error"
    return problem(STATUSES.get(error.code or "", 400), message, kind=kind, param=error.param, code=error.code)
