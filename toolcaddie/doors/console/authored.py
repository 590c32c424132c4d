"""The section of tools that bots wrote: their list, and for each tool what a person needs to decide about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args
from urllib.parse import quote, urlencode

from toolcaddie.core.errors import RequestError
from toolcaddie.core.schema import canonical_json
from toolcaddie.doors.console.answers import Answer, redirect
from toolcaddie.doors.console.forms import FieldProblem, problem_at
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.doors.reviewing import LONGEST_NOTE, Reviews
from toolcaddie.doors.tool_sheets import asker_text, diff_lines, general_findings, parameter_rows, source_lines
from toolcaddie.tools.authored.values import AuthoredTool, Review, Status

PATH = f"{HOME}authored"
PAGE = 100
"""Number of tools on a page of the list."""
_DONE = {
    "approved": "Approved. The next request offers it.",
    "rejected": "Rejected.",
    "revoked": "Revoked. No call of it runs any more.",
    "back": "The earlier version is back, and approved.",
    "changed": "Changed. It waits for an approval now.",
    "deleted": "The tool was deleted.",
}
"""Sentences that a page shows after a decision, by the word in its address."""


def authored_section(reviews: Reviews) -> Section:
    """Returns the section."""
    return Section(title="Tools by bots", path=PATH, routes=lambda renderer: _AuthoredTools(reviews, renderer).routes)


class _AuthoredTools:
    def __init__(self, reviews: Reviews, renderer: Renderer) -> None:
        self._reviews = reviews
        self._renderer = renderer

    @property
    def routes(self) -> Sequence[PageRoute]:
        one = f"{PATH}/{{key}}"
        return (
            PageRoute(method="GET", path=PATH, handle=self._list),
            PageRoute(method="GET", path=one, handle=self._show),
            PageRoute(method="POST", path=f"{one}/approve", handle=self._approve),
            PageRoute(method="POST", path=f"{one}/reject", handle=self._reject),
            PageRoute(method="POST", path=f"{one}/revoke", handle=self._revoke),
            PageRoute(method="POST", path=f"{one}/rollback", handle=self._rollback),
            PageRoute(method="POST", path=f"{one}/rename", handle=self._rename),
            PageRoute(method="POST", path=f"{one}/scope", handle=self._change_scope),
            PageRoute(method="POST", path=f"{one}/delete", handle=self._delete),
        )

    async def _list(self, visit: Visit) -> Answer:
        status = _status(visit.request.query.get("status", ""))
        tools = await self._reviews.list(visit.person)
        shown = _behind([tool for tool in tools if status in (None, tool.status)], visit.request.query.get("after", ""))
        page = shown[:PAGE]
        data = {
            "tools": page,
            "askers": {tool.id: asker_text(tool) for tool in page},
            "next": page[-1].id if len(shown) > PAGE else None,
            "numbers": {each: sum(tool.status == each for tool in tools) for each in get_args(Status)},
            "broken": await self._reviews.broken(visit.person),
        }
        return self._renderer.page(
            "authored/list.html",
            visit,
            data,
            chosen=status or "",
            next_path=f"{PATH}?{urlencode({'status': status or '', 'after': page[-1].id})}" if data["next"] else "",
            path=PATH,
            done=_DONE.get(visit.request.query.get("done", ""), ""),
        )

    async def _show(self, visit: Visit, *, problem: FieldProblem | None = None) -> Answer:
        """Returns the page of a tool. `problem`: the reason why a form that was sent has changed nothing."""
        review = await self._reviews.show(visit.person, visit.part)
        tool = review.tool
        return self._renderer.page(
            "authored/tool.html",
            visit,
            {"review": review, "asker": asker_text(tool), "objection": self._reviews.objection(tool, visit.person)},
            tool=tool,
            lines=source_lines(review),
            general=general_findings(review),
            parameters=parameter_rows(tool.definition.parameters),
            schema=canonical_json(tool.definition.parameters).decode(),
            diff=diff_lines(review.diff),
            refused=_never_accepted(review),
            status=400 if problem else 200,
            problem=problem,
            form_values=visit.form if problem else {},
            is_keyless=visit.session is not None and not visit.session.key_id,
            longest_note=LONGEST_NOTE,
            path=_path_of(tool),
            list_path=PATH,
            done=_DONE.get(visit.request.query.get("done", ""), ""),
        )

    async def _approve(self, visit: Visit) -> Answer:
        digest = visit.form.get("digest", "")
        tool = await self._reviews.approve(visit.person, visit.part, digest=digest, note=_note(visit))
        return _done(tool, "approved")

    async def _reject(self, visit: Visit) -> Answer:
        return _done(await self._reviews.reject(visit.person, visit.part, note=_note(visit)), "rejected")

    async def _revoke(self, visit: Visit) -> Answer:
        return _done(await self._reviews.revoke(visit.person, visit.part, note=_note(visit)), "revoked")

    async def _rollback(self, visit: Visit) -> Answer:
        number = visit.form.get("version", "")
        if not number.isdecimal() or len(number) > 9:
            raise RequestError("the form names no version", param="version")
        return _done(await self._reviews.rollback(visit.person, visit.part, int(number), note=_note(visit)), "back")

    async def _rename(self, visit: Visit) -> Answer:
        try:
            tool = await self._reviews.rename(visit.person, visit.part, visit.form.get("name", ""))
        except RequestError as error:
            return await self._show(visit, problem=problem_at(visit, error, ["name"]))
        return _done(tool, "changed")

    async def _change_scope(self, visit: Visit) -> Answer:
        try:
            tool = await self._reviews.change_scope(visit.person, visit.part, visit.form.get("scope", ""))
        except RequestError as error:
            return await self._show(visit, problem=problem_at(visit, error, ["scope"]))
        return _done(tool, "changed")

    async def _delete(self, visit: Visit) -> Answer:
        await self._reviews.delete(visit.person, visit.part)
        return redirect(f"{PATH}?done=deleted")


def _status(text: str) -> Status | None:
    return next((each for each in get_args(Status) if each == text), None)


def _behind(tools: Sequence[AuthoredTool], after: str) -> Sequence[AuthoredTool]:
    """Returns the tools behind the one of this id; if it has gone, or for an empty text, all of them."""
    place = next((number for number, tool in enumerate(tools, 1) if tool.id == after), 0)
    return tools[place:]


def _never_accepted(review: Review) -> bool:
    return any(finding.severity == "refused" for finding in review.findings)


def _note(visit: Visit) -> str:
    return visit.form.get("note", "").strip()


def _path_of(tool: AuthoredTool) -> str:
    return f"{PATH}/{quote(tool.id, safe='')}"


def _done(tool: AuthoredTool, word: str) -> Answer:
    return redirect(f"{_path_of(tool)}?done={word}")
