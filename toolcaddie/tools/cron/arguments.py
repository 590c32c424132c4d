"""The arguments of a call of `cron`, as models write them, and the job that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from toolcaddie.core.bots import Inherited, chat_of
from toolcaddie.core.errors import RequestError
from toolcaddie.core.jobs import At, Cron, Every, JobKind, NewJob, Schedule
from toolcaddie.core.run import RunContext
from toolcaddie.jobs.schedule import next_slot


def new_job(arguments: Mapping[str, Any], context: RunContext) -> NewJob:
    """Returns the job that a call wants to add. Raises `RequestError`."""
    text, kind, chat = str(arguments.get("text") or ""), _kind(arguments), chat_of(context.injected)
    if not text.strip():
        raise RequestError("text: add needs the message or instruction", param="text")
    if context.principal.bot is None:
        raise RequestError(
            "a job needs a bot that does it, and this request names none; it may be the default_bot of the settings",
            param="bot",
            code="unknown_bot",
        )
    if kind == "message" and chat is None:
        raise RequestError(
            "kind: a message goes to the chat in which the job is made, and this request comes from no channel; "
            "use kind instruction",
            param="kind",
        )
    return NewJob(
        text=text,
        schedule=_schedule(arguments),
        owner=context.principal,
        name=str(arguments.get("name") or ""),
        kind=kind,
        delete_after_run=bool(arguments.get("deleteAfterRun")),
        inherited=_inherited(context),
        reply_to=chat,
        chat=context.conversation,
    )


def _inherited(context: RunContext) -> Inherited:
    """Returns the limits of the job's runs: those of the run that makes it, only the tools that it sees, and its taint."""
    visible = tuple(tool.name for tool in context.view)
    limit = context.inherited.tools
    return Inherited(
        lineage=context.inherited.lineage,
        tools=visible if limit is None else tuple(name for name in visible if name in limit),
        taint=tuple(dict.fromkeys((*context.inherited.taint, *context.taint))),
    )


def _kind(arguments: Mapping[str, Any]) -> JobKind:
    return "instruction" if arguments.get("kind") == "instruction" else "message"


def _schedule(arguments: Mapping[str, Any]) -> Schedule:
    """Returns the schedule, also if its fields are beside it instead of in it."""
    inner = arguments.get("schedule") or {}
    fields = {name: arguments.get(name) for name in ("at", "everyMs", "every", "expr", "tz")}
    fields |= {name: value for name, value in inner.items() if value is not None}
    at, expr, tz = fields.get("at"), fields.get("expr") or fields.get("cron"), fields.get("tz")
    every = fields.get("everyMs") if fields.get("everyMs") is not None else fields.get("every")
    kinds = {"at": at, "every": every, "cron": expr}
    wanted = str(inner.get("kind") or arguments.get("kind"))
    present = [kind for kind, value in kinds.items() if value is not None]
    kind = wanted if wanted in kinds else present[0] if len(present) == 1 else None
    if kind is None or kinds[kind] is None:
        raise RequestError(
            "schedule: give {kind: 'at', at}, {kind: 'every', everyMs} or {kind: 'cron', expr, tz}", param="schedule"
        )
    if kind == "at" and isinstance(at, str):
        return At(at=_in_zone(at, tz))
    if kind == "cron" and isinstance(expr, str) and isinstance(tz, str | None):
        return Cron(expr=expr, tz=tz or None)
    if kind == "every" and not isinstance(every, bool) and str(every).isascii() and str(every).isdigit():
        return Every(every_ms=int(str(every)[:18]))
    raise RequestError(f"schedule: the field of kind {kind} has a wrong type", param="schedule")


def _in_zone(at: str, tz: Any) -> str:
    """Returns a date with an offset, if it has a zone of its own."""
    if not isinstance(tz, str) or not tz:
        return at
    moment = next_slot(At(at=at), zone=tz, after=float("-inf"), anchor=0.0)
    return at if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()


def job_id_of(arguments: Mapping[str, Any]) -> str:
    """Returns the id of the job that a call names; empty: it names none."""
    return str(arguments.get("jobId") or arguments.get("id") or "")
