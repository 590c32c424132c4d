"""The list of bots, and the page of one: its settings, tools, goals, and what else there is about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toolcaddie.core.personas import GOALS
from toolcaddie.doors.bot_sheets import MODES, missing_in, model_text, tools_in, used_of
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.bots.desk import ONE, PATH, BotDesk, tenant_of
from toolcaddie.doors.console.requests import Visit
from toolcaddie.doors.console.sections import PageRoute
from toolcaddie.personas.names import FILES

_TOOLS_SHOWN = 100


def overview_routes(desk: BotDesk) -> Sequence[PageRoute]:
    """Returns the pages."""

    async def list_(visit: Visit) -> Answer:
        tenant = tenant_of(visit)
        jobs = Counter(job.owner.bot for job in await desk.jobs.list(tenant=tenant))
        proposals = Counter(each.bot for each in await desk.proposals.all(tenant) if each.status == "open")
        bots = [
            {
                "name": name,
                "description": bot.description,
                "model": model_text(bot.model, desk.settings),
                "language": bot.language,
                "groups": bot.groups,
                "jobs": jobs[name],
                "open_proposals": proposals[name],
            }
            for name, bot in desk.settings.bots.items()
        ]
        return desk.page("list", visit, {"bots": bots})

    async def show(visit: Visit) -> Answer:
        name = desk.bot(visit)
        bot, shelf, runtime = desk.settings.bots[name], desk.shelf(visit), desk.parts.runtime
        files = await shelf.files.read_many(shelf.key, FILES)
        tenant = tenant_of(visit)
        async with runtime.holding(tenant):
            tools = {mode: tools_in(name, mode, runtime, tenant) for mode in MODES}
        missing = {mode: missing_in(name, mode, tools[mode], runtime) for mode in MODES}
        # A budget counts what all tenants use, so only those see it who see all tenants.
        used = await used_of(name, desk.settings, runtime, desk.parts.meter) if visit.tenant is None else ()
        data = {
            "description": bot.description,
            "skills": bot.skills,
            "model": model_text(bot.model, desk.settings),
            "language": bot.language,
            "groups": bot.groups,
            "disabled_tools": bot.disabled_tools,
            "categories": bot.categories,
            "persona": bot.persona if visit.tenant is None else None,
            "tools": {mode: {"count": len(names), "names": names[:_TOOLS_SHOWN]} for mode, names in tools.items()},
            "missing": {mode: dict(Counter(settings.values())) for mode, settings in missing.items()},
            "budget": [{"counted": each.counted, "limit": each.limit, "used": each.used} for each in used],
            "goals": files[GOALS].text if GOALS in files else "",
            "files": [
                {"path": file.path, "version": file.version, "at": file.at, "author": file.author}
                for path in FILES
                if (file := files.get(path)) is not None
            ],
        }
        return desk.page("bot", visit, data, goals_path=GOALS)

    return (
        PageRoute(method="GET", path=PATH, handle=list_),
        PageRoute(method="GET", path=ONE, handle=show),
    )
