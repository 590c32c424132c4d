"""Names in the large database of the console, for the places in the addresses of its pages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from benchmarks.console.desks import ADMIN, reviews_of
from benchmarks.console.trail import run_name
from toolcaddie.app.build import Assembled
from toolcaddie.app.evaluations import Evaluations
from toolcaddie.doors.console.playground.chats import Chats


async def words_of(parts: Assembled, runs: int) -> Mapping[str, str]:
    """Returns names in the database for the places in the addresses."""
    middle = run_name(runs // 2)
    events = await parts.event_log.events(middle)
    started, day = events[0].at, datetime.fromtimestamp(events[0].at, UTC)
    keys = await parts.keys.list()
    reviews = await reviews_of(parts).list(ADMIN, status="approved")
    written = next(tool for tool in reviews if len(tool.versions) > 1)
    evaluations, _ = await Evaluations(parts.documents).page("default", limit=1)
    talks = await Chats(parts.documents).list(ADMIN, cursor=None, limit=1)
    jobs = await parts.database.jobs.list(tenant="default", bot="desk")
    names = [event.data["name"] for event in events if event.kind == "call_finished"]
    tool = parts.runtime.source.snapshot().get(names[0])
    assert tool is not None
    return {
        "middle": repr(started),
        "since": f"{day:%Y-%m-%dT00:00}",
        "until": f"{day:%Y-%m-%dT23:59}",
        "run": middle,
        "tool": tool.name,
        "source": tool.source,
        "question": f"approval_{400:032x}",
        "talk": talks.chats[0].id,
        "written": written.id,
        "job": jobs[0].id,
        "evaluation": evaluations[0].id,
        "key": keys[0].id,
    }
