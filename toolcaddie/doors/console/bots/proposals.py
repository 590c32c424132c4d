"""Proposals of reviews for the files of a bot. An operator applies or rejects it."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.bots.desk import ONE, BotDesk, field, tenant_of
from toolcaddie.doors.console.requests import Visit
from toolcaddie.doors.console.sections import PageRoute
from toolcaddie.doors.reviewing import LONGEST_NOTE
from toolcaddie.doors.tool_sheets import diff_lines
from toolcaddie.guards.aside import aside
from toolcaddie.tools.improve.values import Proposal


def proposal_routes(desk: BotDesk) -> Sequence[PageRoute]:
    """Returns the pages and forms."""

    async def find(visit: Visit) -> Proposal:
        return await desk.proposals.get(tenant_of(visit), desk.bot(visit), field(visit, "proposal"))

    async def proposals(visit: Visit) -> Answer:
        stored = await desk.proposals.all(tenant_of(visit), desk.bot(visit))
        heads = [
            {
                "id": each.id,
                "focus": each.focus,
                "status": each.status,
                "made": each.made,
                "files": [change.path for change in each.changes],
                "taint": each.author.taint,
            }
            for each in stored
        ]
        return desk.page("proposals", visit, {"proposals": heads})

    async def proposal(visit: Visit) -> Answer:
        stored = await find(visit)
        text = await aside(lambda: stored.diff)
        return desk.page(
            "proposal",
            visit,
            {"proposal": stored, "diff": text},
            lines=diff_lines(text),
            longest_note=LONGEST_NOTE,
        )

    async def apply(visit: Visit) -> Answer:
        stored = await desk.proposals.apply(await find(visit), visit.person)
        return desk.done(visit, "applied", "proposal", proposal=stored.id)

    async def reject(visit: Visit) -> Answer:
        note = visit.form.get("note", "").strip()[:LONGEST_NOTE]
        stored = await desk.proposals.reject(await find(visit), visit.person, note)
        return desk.done(visit, "rejected", "proposal", proposal=stored.id)

    return (
        PageRoute(method="GET", path=f"{ONE}/proposals", handle=proposals),
        PageRoute(method="GET", path=f"{ONE}/proposal", handle=proposal),
        PageRoute(method="POST", path=f"{ONE}/apply", handle=apply, level="operator"),
        PageRoute(method="POST", path=f"{ONE}/reject", handle=reject, level="operator"),
    )
