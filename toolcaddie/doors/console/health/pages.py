"""The pages of health: one that is quick, and one for each look at something outside of the process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from toolcaddie.app.build import Assembled
from toolcaddie.app.sandboxes import SandboxOnDemand
from toolcaddie.core.errors import ConfigError, SandboxError, ToolcaddieError
from toolcaddie.doors.back_ends import back_ends_of
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.health.checkup import Checkup
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.ports import SandboxFact

PATH = f"{HOME}health"
_PATIENCE = 5.0
"""Seconds that the upstream may take to list its models."""
_MODELS = 200


def health_section(parts: Assembled, traffic: Traffic | None) -> Section:
    """Returns the section. `traffic` admits the requests of this process; None: nothing does."""
    return Section(
        title="Health",
        path=PATH,
        routes=lambda renderer: _Health(parts, traffic, renderer).routes,
        level="viewer",
        of_server=True,
    )


class _Health:
    def __init__(self, parts: Assembled, traffic: Traffic | None, renderer: Renderer) -> None:
        self._parts = parts
        self._checkup = Checkup(parts, traffic)
        self._renderer = renderer
        self._turn = asyncio.Lock()
        """One look at a time, because some start programs."""

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (
            PageRoute(method="GET", path=PATH, handle=self._show),
            PageRoute(method="GET", path=f"{PATH}/upstream", handle=self._upstream, level="operator"),
            PageRoute(method="GET", path=f"{PATH}/sandbox", handle=self._sandbox, level="operator"),
            PageRoute(method="GET", path=f"{PATH}/host", handle=self._host, level="operator"),
        )

    async def _show(self, visit: Visit) -> Answer:
        return self._renderer.page(
            "health/show.html",
            visit,
            {"health": await self._checkup.report()},
            path=PATH,
            home_path=HOME,
            may_look=visit.level in ("operator", "admin"),
            may_see_sources=visit.level == "admin",
        )

    async def _upstream(self, visit: Visit) -> Answer:
        """Asks the upstream for its models, as a sign that it can be reached."""
        begun, reason, models = time.perf_counter(), "", list[str]()
        async with self._turn:
            try:
                async with asyncio.timeout(_PATIENCE):
                    models = [str(each.get("id", "")) for each in await self._parts.provider.models()]
            except ToolcaddieError as error:
                reason = str(error)
            except TimeoutError:
                reason = f"it did not list its models in {_PATIENCE:g} seconds"
        data = {
            "provider": self._parts.provider.name,
            "works": not reason,
            "reason": reason,
            "seconds": round(time.perf_counter() - begun, 3),
            "models": models[:_MODELS],
        }
        return self._renderer.page("health/upstream.html", visit, data, path=PATH)

    async def _sandbox(self, visit: Visit) -> Answer:
        """Tries to get out of the sandbox, as `toolcaddie sandbox check` does."""
        async with self._turn:
            facts = await self._facts()
        data = {"holds": all(fact.holds for fact in facts), "facts": facts}
        return self._renderer.page("health/sandbox.html", visit, data, path=PATH)

    async def _facts(self) -> Sequence[SandboxFact]:
        on_demand = SandboxOnDemand(self._parts.settings)
        try:
            sandbox = await asyncio.to_thread(on_demand)
            return await sandbox.facts()
        except (ConfigError, SandboxError) as error:
            return [SandboxFact(name="sandbox", holds=False, detail=str(error))]
        finally:
            await on_demand.close()

    async def _host(self, visit: Visit) -> Answer:
        """Looks at the parts of this machine for the tools of the source `host`, as `toolcaddie doctor` does."""
        async with self._turn:
            groups = await back_ends_of(self._parts.settings)
        is_complete = all(each.present for group in groups for each in group.back_ends)
        return self._renderer.page("health/host.html", visit, {"complete": is_complete, "groups": groups}, path=PATH)
