"""Knowledge about one tool besides its definition: who may see it, and how its last calls ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import View
from toolcaddie.core.control import Principal
from toolcaddie.core.storage import EventRecord, RunQuery
from toolcaddie.core.tool import Tool
from toolcaddie.doors.console.requests import Visit
from toolcaddie.ports import EventLog
from toolcaddie.runtime import Runtime

RUNS_READ = 200
"""The number of runs, the newest ones, whose calls are counted."""
_FAILURES = 5
"""The largest number of failures that a page shows."""
_MOST_CALLERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The visibility of the tool for one caller."""

    caller: str
    """`you`, `bot NAME` or `role NAME`."""
    kind: str
    visible: bool
    rule: str = ""
    """The setting or the rule that hides it; empty: nothing does."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call that failed."""

    run_id: str
    at: float
    error: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The calls of the tool in the newest runs."""

    runs: int
    """Number of runs that were read."""
    calls: int
    failures: int
    seconds: float | None
    """Mean duration of a call; None: there was none."""
    last: float | None
    last_failures: Sequence[Failure]


def readable_view(runtime: Runtime, visit: Visit) -> View:
    """Returns the tools that a person may read about: all for an admin of the server, else those of the person's own calls."""
    if visit.tenant is None:
        return View(catalog=runtime.source.snapshot())
    return runtime.desk(principal=visit.person).view


def sights_of(runtime: Runtime, tool: Tool, person: Principal, roles: Sequence[str]) -> Sequence[Sight]:
    """Returns whether the person, each bot and each of these roles see a tool, and what hides it from them."""
    callers = [
        ("", "you", person),
        *(
            (name, "bot", Principal(id=person.id, role=person.role, tenant=person.tenant, bot=name))
            for name in runtime.bots
        ),
        *((name, "role", Principal(id=person.id, role=name, tenant=person.tenant, bot=person.bot)) for name in roles),
    ]
    return [_sight(runtime, tool, name, kind, caller) for name, kind, caller in callers[:_MOST_CALLERS]]


def _sight(runtime: Runtime, tool: Tool, name: str, kind: str, caller: Principal) -> Sight:
    restriction = runtime.restriction(tool, caller)
    if restriction is None:
        return Sight(caller=name, kind=kind, visible=True)
    return Sight(caller=name, kind=kind, visible=False, rule=restriction.rule, reason=restriction.reason)


async def use_of(log: EventLog, name: str, tenant: str | None) -> Use:
    """Returns how a tool was used in the newest runs of a tenant; None: of all tenants."""
    newest_runs = await log.runs(RunQuery(tenant=tenant, limit=RUNS_READ))
    with_calls = [run.run_id for run in newest_runs if run.calls]
    records = await log.records(with_calls, ["call_finished"]) if with_calls else ()
    calls = [record for record in records if record.data.get("name") == name]
    failures = [record for record in calls if record.data.get("error")]
    durations = [float(record.data.get("seconds") or 0) for record in calls]
    newest = sorted(failures, key=lambda record: record.at, reverse=True)[:_FAILURES]
    return Use(
        runs=len(newest_runs),
        calls=len(calls),
        failures=len(failures),
        seconds=round(sum(durations) / len(durations), 3) if durations else None,
        last=max((record.at for record in calls), default=None),
        last_failures=[_failure(record) for record in newest],
    )


def _failure(record: EventRecord) -> Failure:
    return Failure(
        run_id=record.run_id,
        at=record.at,
        error=str(record.data.get("error", "")),
        text=str(record.data.get("content", ""))[:500],
    )
