"""`toolcaddie approvals`: lists the calls that wait for a person, shows them, and answers them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import click

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.runtimes import bots_of, host_parts, policy_of
from toolcaddie.app.settings import Settings
from toolcaddie.audit.trail import Trail
from toolcaddie.control.approvals import StoredApprovals
from toolcaddie.control.approvers import Answered, JudgedApprovals
from toolcaddie.control.policy.current import CurrentPolicy
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.doors.arguments import argument_texts
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed, hinted
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.trail import LAST
from toolcaddie.doors.texts import local_time, shortened
from toolcaddie.registry import Registry
from toolcaddie.storage.runs import StoredRuns
from toolcaddie.util.text import visible_line
from toolcaddie.util.user import user_name

_ARGUMENTS_SHOWN = 80
_ALL = sys.maxsize
_MCP = "mcp"
"""The channel of calls by MCP clients, which no message continues."""

tenant_option = click.option("--tenant", default="default", show_default=True, help="Tenant whose approvals are meant.")
run_option = click.option("--run", "run_id", metavar="RUN_ID", help="All open questions of this run.")
reason_option = click.option("--reason", default="", help="Why; it is recorded with the answer.")


@click.group(
    name="approvals",
    epilog="\b\nExamples:\n"
    "  toolcaddie approvals list\n"
    "  toolcaddie approvals show approval_0123\n"
    '  toolcaddie approvals approve approval_0123 --reason "agreed by phone"\n'
    "  toolcaddie approvals deny approval_0123",
)
def command() -> None:
    """List the calls that wait for a person's approval, and answer them.

    A run that waits continues with the next message of its conversation, or with `toolcaddie resume`.
    """


@command.command("list", epilog="\b\nExamples:\n  toolcaddie approvals list\n  toolcaddie approvals list --all --json")
@click.option("--all", "everything", is_flag=True, help="Also answered, used and expired ones.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number to list.")
@tenant_option
@database_option
@json_option
@click.pass_obj
def list_(common: Common, everything: bool, limit: int, tenant: str, database_url: str | None, as_json: bool) -> None:
    """List the questions that wait for an answer, the oldest first."""
    settings = settings_of(common, database_url=database_url)
    approvals = asyncio.run(_listed(settings, tenant, everything=everything, limit=limit))
    if as_json:
        print_json({"approvals": approvals})
    elif approvals:
        rows = [
            (each.id, each.status, local_time(each.created), each.principal.id, each.tool, _arguments(each))
            for each in approvals
        ]
        print_table(("approval", "state", "asked", "for", "tool", "arguments"), rows, spare=("asked", "for"))
    else:
        note("nothing waits for an approval")


@command.command("show", epilog="\b\nExamples:\n  toolcaddie approvals show approval_0123")
@click.argument("approval_id")
@tenant_option
@database_option
@json_option
@click.pass_obj
def show(common: Common, approval_id: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Show the question APPROVAL_ID with all arguments."""
    settings = settings_of(common, database_url=database_url)
    approval, others = asyncio.run(_found(settings, tenant, approval_id))
    if as_json:
        print_json(approval)
        return
    facts = {
        "tool": approval.tool,
        "state": approval.status,
        "reason": approval.reason,
        "rule": approval.rule,
        "bot": approval.principal.bot or "",
        "for": approval.principal.id,
        "run": approval.run_id,
        "asked": local_time(approval.created),
        "expires": local_time(approval.expires),
        "read before": ", ".join(approval.taint),
        "answered": _answered(approval),
        "used by": approval.used_by,
        "also waits": ", ".join(others),
    }
    for name, value in facts.items():
        if value:
            echo(f"{name:<12} {visible_line(value)}")
    for name, text in argument_texts(approval):
        echo(f"  {name}: {text}")
    for line in approval.preview.splitlines():
        echo(f"  {visible_line(line)}")


@command.command(
    "approve",
    epilog="\b\nExamples:\n"
    '  toolcaddie approvals approve approval_0123 --reason "agreed by phone"\n'
    "  toolcaddie approvals approve --run run_0123",
)
@click.argument("approval_ids", nargs=-1)
@run_option
@reason_option
@tenant_option
@database_option
@json_option
@click.pass_obj
def approve(common: Common, /, **options: Any) -> None:
    """Approve the calls of APPROVAL_IDS: each may run once, with exactly its arguments.

    The policy says who may approve (`policy.approvers`). Nobody may approve a call of their own.
    """
    _answer(common, approved=True, **options)


@command.command("deny", epilog="\b\nExamples:\n  toolcaddie approvals deny approval_0123")
@click.argument("approval_ids", nargs=-1)
@run_option
@reason_option
@tenant_option
@database_option
@json_option
@click.pass_obj
def deny(common: Common, /, **options: Any) -> None:
    """Refuse the calls of APPROVAL_IDS: they never run, and the model is told so."""
    _answer(common, approved=False, **options)


def _answer(
    common: Common,
    *,
    approval_ids: Sequence[str],
    run_id: str | None,
    approved: bool,
    reason: str,
    tenant: str,
    database_url: str | None,
    as_json: bool,
) -> None:
    settings = settings_of(common, database_url=database_url)
    if bool(approval_ids) == (run_id is not None):
        raise click.UsageError("name approvals, or a run with --run")
    if run_id == LAST:
        raise click.UsageError(
            "name the run by its id: the newest run may be another one by the time you answer, and an answer counts for what "
            "you have seen. `toolcaddie runs` lists the runs, and `toolcaddie approvals list` what waits"
        )
    with hinted("unknown_approval", "`toolcaddie approvals list` shows those that wait"):
        outcomes, runs = asyncio.run(_answers(settings, tenant, approval_ids, run_id, approved=approved, reason=reason))
    answers = [outcome.approval for outcome in outcomes if outcome.approval is not None]
    problems = [outcome.problem for outcome in outcomes if outcome.problem]
    if as_json:
        print_json({"approvals": answers, "problems": problems})
    else:
        for answer in answers:
            echo(f"{answer.status} {answer.tool} ({answer.id})")
        for answer in answers:
            if len(waiting_runs := runs[answer.id]) > 1:
                effect = "the first that goes on uses it" if approved else "all of them are refused"
                note(f"{', '.join(waiting_runs)} wait for this answer: {effect}")
        for line in dict.fromkeys(line for answer in answers for line in _continuations(answer, runs[answer.id])):
            note(line)
    if problems:
        raise CommandFailed("; ".join(problems))


def _continuations(answer: Approval, waiting: Sequence[str]) -> Iterator[str]:
    """Returns how the runs that waited for an answer go on."""
    for run in (answer.run_id, *waiting):
        if run == answer.run_id and answer.principal.channel == _MCP:
            yield f"the MCP client goes on by making the same call of {visible_line(answer.tool)} again"
        else:
            yield (
                f"{run} goes on with the next message of its conversation, or with `toolcaddie resume {run}`; name the same "
                "--catalog and --box there as in the command that began it"
            )


@asynccontextmanager
async def _stored(settings: Settings) -> AsyncIterator[tuple[JudgedApprovals, StoredRuns]]:
    policy = CurrentPolicy(policy_of(settings, Registry(), host_parts(settings)))
    async with existing_or_empty(settings) as database:
        approvals = StoredApprovals(database.store, emit=Trail(database.events).emit)
        yield JudgedApprovals(approvals, policy, Visibility(bots_of(settings))), StoredRuns(database.store)


async def _listed(settings: Settings, tenant: str, *, everything: bool, limit: int) -> Sequence[Approval]:
    async with _stored(settings) as (approvals, _):
        return await approvals.list(tenant, status=None if everything else "open", limit=limit)


async def _found(settings: Settings, tenant: str, approval_id: str) -> tuple[Approval, Sequence[str]]:
    """Returns a question, and the other runs that wait for its answer."""
    async with _stored(settings) as (approvals, runs):
        approval = await approvals.get(tenant, approval_id)
        waiting = await runs.waiting_for(approval_id)
    if approval is None:
        raise RequestError(
            f"there is no approval {approval_id[:80]!r}; `toolcaddie approvals list` shows those that wait"
        )
    return approval, [run_id for run_id in waiting if run_id != approval.run_id]


async def _answers(
    settings: Settings, tenant: str, approval_ids: Sequence[str], run_id: str | None, *, approved: bool, reason: str
) -> tuple[Sequence[Answered], Mapping[str, Sequence[str]]]:
    """Answers the questions in the name of the operating system's user: all of them, or none if one cannot be answered. Returns
    the outcomes, and for each question the runs that wait for it."""
    by = Principal(id=user_name(), tenant=tenant, channel="command line")
    async with _stored(settings) as (approvals, runs):
        if run_id is not None:
            waiting = await approvals.list(tenant, status="open", limit=_ALL)
            shared = await runs.questions(run_id)
            approval_ids = [each.id for each in waiting if each.run_id == run_id or each.id in shared]
            if not approval_ids:
                raise RequestError(f"{run_id[:80]} waits for no answer; `toolcaddie approvals list` shows what waits")
        outcomes = await approvals.answer_all(tenant, dict.fromkeys(approval_ids, approved), by=by, reason=reason)
        return outcomes, {each.id: await runs.waiting_for(each.id) for each in outcomes}


def _arguments(approval: Approval) -> str:
    return shortened(", ".join(f"{name}: {text}" for name, text in argument_texts(approval)), _ARGUMENTS_SHOWN)


def _answered(approval: Approval) -> str:
    if approval.answered is None:
        return ""
    by = f" by {approval.answered_by.id}" if approval.answered_by else ""
    return f"{local_time(approval.answered)}{by}{f': {approval.answer_reason}' if approval.answer_reason else ''}"
