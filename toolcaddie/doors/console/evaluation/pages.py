"""The pages of evaluations: their list with the form that begins one, and each with its progress and its figures."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.app.build import Assembled
from toolcaddie.app.evaluations import Evaluations
from toolcaddie.app.measuring_process import Measurement
from toolcaddie.core.errors import RequestError
from toolcaddie.doors.console.answers import Answer, redirect
from toolcaddie.doors.console.evaluation.charts import metrics_chart, recall_chart
from toolcaddie.doors.console.evaluation.forms import (
    LONGEST_LIST,
    MOST_REQUESTS,
    MOST_RUNS,
    RANKERS,
    SELECTING,
    configurations_of,
    requests_of,
)
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.guards.aside import aside
from toolcaddie.storage.database import is_in_memory

PATH = f"{HOME}evaluation"
_SHOWN = 20
_LONGEST_FORM = 3 * LONGEST_LIST
"""A form spells each quotation mark of a list with three characters."""
_DONE = {"cancelled": "It ends within a few seconds."}


def evaluation_section(parts: Assembled) -> Section:
    """Returns the section. It measures the catalog of the server, which belongs to no tenant."""
    evaluations = Evaluations(parts.documents, parts.work.queue)
    return Section(
        title="Evaluation",
        path=PATH,
        routes=lambda renderer: _Pages(parts, evaluations, renderer).routes,
        level="operator",
        of_server=True,
        needs_bot=False,
    )


class _Pages:
    def __init__(self, parts: Assembled, evaluations: Evaluations, renderer: Renderer) -> None:
        self._parts = parts
        self._evaluations = evaluations
        self._renderer = renderer

    @property
    def routes(self) -> Sequence[PageRoute]:
        one = f"{PATH}/{{id}}"
        return (
            PageRoute(method="GET", path=PATH, handle=self._list),
            PageRoute(method="POST", path=f"{PATH}/begin", handle=self._begin, longest_form=_LONGEST_FORM),
            PageRoute(method="GET", path=one, handle=self._show),
            PageRoute(method="POST", path=f"{one}/cancel", handle=self._cancel),
        )

    async def _list(self, visit: Visit, *, problem: str = "") -> Answer:
        """Returns the list with the form that begins an evaluation; `problem`: the reason why a form that was sent began none."""
        cursor = visit.request.query.get("after") or None
        evaluations, following = await self._evaluations.page(visit.person.tenant, cursor=cursor, limit=_SHOWN)
        data = {
            "evaluations": [
                {
                    "id": each.id,
                    "by": each.by,
                    "began": each.began,
                    "status": each.status,
                    "source": each.source,
                    "configurations": each.configurations,
                }
                for each in evaluations
            ],
            "next": following,
        }
        return self._renderer.page(
            "evaluation/list.html",
            visit,
            data,
            path=PATH,
            presets=SELECTING,
            rankers=RANKERS,
            most=MOST_REQUESTS,
            longest=LONGEST_LIST,
            status=400 if problem else 200,
            problem=problem,
            form=visit.form,
        )

    async def _begin(self, visit: Visit) -> Answer:
        try:
            measurement = await self._measurement(visit)
        except RequestError as error:
            if visit.request.wants_json:
                raise
            return await self._list(visit, problem=str(error))
        tenant = visit.person.tenant
        evaluation = await self._evaluations.begin(measurement, by=f"{tenant}/{visit.person.id}", tenant=tenant)
        return redirect(f"{PATH}/{evaluation.id}")

    async def _measurement(self, visit: Visit) -> Measurement:
        """Returns the measurement that a form describes. Raises `RequestError`."""
        form, settings = visit.form, self._parts.settings
        requests = await aside(requests_of, form)
        if requests is None and is_in_memory(settings.database_url):
            raise RequestError(
                "the trail of this server is in its memory, where no other process can read it; give requests, or set "
                "database_url",
                param="source",
            )
        catalog = self._parts.runtime.source.snapshot()
        return Measurement(
            configurations=configurations_of(form, settings),
            tools=catalog.tools,
            categories=catalog.categories,
            requests=requests,
            tenant=visit.tenant,
            most=MOST_REQUESTS,
            runs=MOST_RUNS,
        )

    async def _show(self, visit: Visit) -> Answer:
        evaluation = await self._evaluations.get(visit.person.tenant, visit.part)
        outcome = evaluation.outcome
        charts = None
        if outcome is not None and not visit.request.wants_json:
            charts = (recall_chart(outcome["curves"]), metrics_chart(outcome["record"]["configurations"]))
        return self._renderer.page(
            "evaluation/one.html",
            visit,
            {"evaluation": evaluation},
            outcome=outcome,
            charts=charts,
            path=PATH,
            places=frozenset(visit.titles.values()),
            runs_path=f"{HOME}runs",
            catalog_path=f"{HOME}catalog",
            done=_DONE.get(visit.request.query.get("done", ""), ""),
        )

    async def _cancel(self, visit: Visit) -> Answer:
        await self._evaluations.cancel(visit.person.tenant, visit.part)
        return redirect(f"{PATH}/{visit.part}?done=cancelled")
