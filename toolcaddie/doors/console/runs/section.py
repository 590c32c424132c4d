"""The section of runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from toolcaddie.core.approval import Approval
from toolcaddie.core.errors import RequestError, RunNotFoundError
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.storage import EventRecord, RunSummary
from toolcaddie.doors.console.answers import Answer, EventStream, Reply, redirect
from toolcaddie.doors.console.forms import FieldProblem, problem_at
from toolcaddie.doors.console.live import MOST_TOOLS, LiveRuns
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.runs.again import chosen_again
from toolcaddie.doors.console.runs.filters import STATUSES, Filter
from toolcaddie.doors.console.runs.sheet import event_rows, selection_of, sheet_of, verdict_of
from toolcaddie.doors.console.runs.stages import STAGES
from toolcaddie.doors.console.runs.waterfall import MOST, duration, waterfall
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.runtime import Runtime
from toolcaddie.runtime.settling import Finding, Settling
from toolcaddie.storage.run_lists import RunLists

PATH = f"{HOME}runs"
APPROVALS = f"{HOME}approvals"
_LIVE = f"{PATH}/live"
_READ = 500
"""Number of events of a run from which its page is made."""
_EVENTS = 100
"""Number of events in the list of a page."""
_LONGEST = 2_000
_LAST_EVENT = b"last-event-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsParts:
    """Objects from which the section is made."""

    lists: RunLists
    runtime: Runtime
    settling: Settling
    live: LiveRuns


def runs_section(parts: RunsParts) -> Section:
    """Returns the section."""
    return Section(title="Runs", path=PATH, routes=lambda renderer: _Runs(parts, renderer).routes, level="viewer")


class _Runs:
    def __init__(self, parts: RunsParts, renderer: Renderer, clock: Callable[[], float] = time.time) -> None:
        self._parts = parts
        self._lists = parts.lists
        self._renderer = renderer
        self._clock = clock

    @property
    def routes(self) -> Sequence[PageRoute]:
        one = f"{PATH}/{{id}}"
        return (
            PageRoute(method="GET", path=PATH, handle=self._list),
            PageRoute(method="GET", path=_LIVE, handle=self._follow),
            PageRoute(method="GET", path=one, handle=self._show),
            PageRoute(method="GET", path=f"{one}/events", handle=self._events),
            PageRoute(method="POST", path=f"{one}/settle", handle=self._settle, level="operator"),
            PageRoute(method="POST", path=f"{one}/select", handle=self._select, level="operator"),
        )

    async def _list(self, visit: Visit) -> Answer:
        wanted = Filter.of(visit.request.query, visit.tenant)
        # First the place in the trail, then the list: what happens in between is announced, and nothing is missed.
        last = await self._lists.last_event()
        page = await self._lists.page(wanted.query)
        data = {
            "runs": page.runs,
            "tools": await self._lists.tools([run.run_id for run in page.runs]),
            "next": None if page.cursor is None else wanted.address(PATH, page.cursor),
            "is_cut": page.is_cut,
            "last": last,
        }
        return self._renderer.page(
            "runs/list.html",
            visit,
            data,
            cursor=page.cursor,
            fields=wanted.fields,
            statuses=STATUSES,
            most_tools=MOST_TOOLS,
            path=PATH,
            is_first=wanted.query.before is None,
            live=wanted.address(_LIVE) if wanted.can_follow else "",
        )

    async def _follow(self, visit: Visit) -> Reply:
        wanted = Filter.of(visit.request.query, visit.tenant)
        place = visit.request.header(_LAST_EVENT) or visit.request.query.get("after", "")
        if not wanted.can_follow or not place.isdecimal() or len(place) > 18:
            raise RequestError("this list cannot be followed: the address names no place in the trail", param="after")
        status = wanted.query.status
        return EventStream(
            events=self._parts.live.watch(
                after=int(place), takes=wanted.takes, joins=lambda run: status in (None, run.status)
            )
        )

    async def _show(self, visit: Visit, *, problem: FieldProblem | None = None) -> Answer:
        """Returns the page of a run. `problem`: the reason why a form that was sent has settled nothing."""
        run, events = await self._run(visit)
        query = visit.request.query
        skip = _number(query.get("tools", "0"))
        data = {
            "run": run,
            **sheet_of(events, prices_of=self._parts.runtime.prices_of),
            "selection": selection_of(events, skip=skip),
            "tool": verdict_of(query["tool"][:_LONGEST], events) if query.get("tool") else None,
            "questions": [_question(each) for each in await self._questions(run)],
            "events": event_rows(events[:_EVENTS]),
            "more_events": len(events) > _EVENTS,
            "is_whole": len(events) < _READ,
        }
        path = _path_of(run.run_id)
        return self._renderer.page(
            "runs/run.html",
            visit,
            data,
            picture=waterfall(data["spans"], label=f"{len(data['spans'])} steps of the run {run.run_id}"),
            hidden_spans=max(0, len(data["spans"]) - MOST),
            duration=duration,
            path=path,
            list_path=PATH,
            approvals_path=APPROVALS,
            presets=tuple(PRESETS),
            may_act=visit.level in ("operator", "admin"),
            skip=skip,
            same_person=f"{PATH}?{urlencode({'principal': run.principal})}",
            done=query.get("done", ""),
            status=400 if problem else 200,
            problem=problem,
            form=visit.form if problem else {},
            asked_tool=query.get("tool", ""),
            stages=STAGES,
            last_seq=events[:_EVENTS][-1].seq if events else 0,
        )

    async def _events(self, visit: Visit) -> Answer:
        run = await self._summary(visit)
        after = _number(visit.request.query.get("after", "0"))
        events = await self._lists.events(run.run_id, after=after, limit=_EVENTS + 1)
        shown = events[:_EVENTS]
        path = _path_of(run.run_id)
        following = f"{path}/events?after={shown[-1].seq}" if len(events) > _EVENTS else None
        data = {"run_id": run.run_id, "events": event_rows(shown), "next": following}
        return self._renderer.page("runs/events.html", visit, data, path=path, after=after)

    async def _settle(self, visit: Visit) -> Answer:
        run = await self._summary(visit)
        form = visit.form
        outcome = form.get("outcome", "")
        if outcome not in ("done", "not_done"):
            error = RequestError("say whether the call took effect", param="outcome")
            return await self._show(visit, problem=problem_at(visit, error, ["outcome"]))
        finding = Finding(
            took_effect=outcome == "done",
            text=form.get("text", "")[:_LONGEST],
            reason=form.get("reason", "")[:_LONGEST],
        )
        await self._parts.settling.settle(run.run_id, form.get("call", ""), finding, by=visit.person)
        return redirect(f"{_path_of(run.run_id)}?done=settled")

    async def _select(self, visit: Visit) -> Answer:
        run, events = await self._run(visit)
        # In a thread, because the first selection under a preset indexes the whole catalog.
        runtime = self._parts.runtime
        async with runtime.holding(run.tenant):
            again = await asyncio.to_thread(chosen_again, runtime, run, events, visit.form.get("preset", ""))
        data = {"run": run, "again": again}
        return self._renderer.page("runs/again.html", visit, data, path=_path_of(run.run_id), presets=tuple(PRESETS))

    async def _summary(self, visit: Visit) -> RunSummary:
        """Returns the run of the address. Raises `RequestError` if the person's tenant has none of this id."""
        run = await self._lists.run(visit.part, tenant=visit.tenant)
        if run is None:
            raise RequestError("There is no such run.", code="unknown_page")
        return run

    async def _run(self, visit: Visit) -> tuple[RunSummary, Sequence[EventRecord]]:
        run = await self._summary(visit)
        return run, await self._lists.events(run.run_id, limit=_READ)

    async def _questions(self, run: RunSummary) -> Sequence[Approval]:
        if run.status != "pending":
            return ()
        try:
            return await self._parts.runtime.questions(run.run_id)
        except RunNotFoundError:  # it was answered, or has expired
            return ()


def _question(approval: Approval) -> dict[str, Any]:
    """Returns what the page of a run says about a question."""
    names = ("id", "call_id", "tool", "arguments", "reason", "rule", "taint", "effects", "created", "expires", "status")
    return {name: getattr(approval, name) for name in names}


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise RequestError("the address names no place in a list", param="after")
    return int(text)


def _path_of(run_id: str) -> str:
    return f"{PATH}/{quote(run_id, safe='')}"
