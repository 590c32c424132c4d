"""`toolcaddie improve`: lists what reviews propose for the files of bots, shows it, and decides about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeVar

import click

from toolcaddie.app.build import existing, existing_or_empty
from toolcaddie.app.improving import stored_proposals
from toolcaddie.app.settings import Settings
from toolcaddie.core.control import Principal
from toolcaddie.doors.cli.authored.sheet import print_diff
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import hinted
from toolcaddie.doors.cli.options import database_option, nothing_such, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import local_time
from toolcaddie.tools.improve.proposals import Proposals
from toolcaddie.tools.improve.values import Proposal
from toolcaddie.util.text import visible_code, visible_line
from toolcaddie.util.user import user_name

T = TypeVar("T")

_tenant_option = click.option("--tenant", default="default", show_default=True, help="Tenant whose bots are meant.")
_id_argument = click.argument("proposal_id", metavar="PROPOSAL")


@click.group(
    name="improve",
    epilog="\b\nExamples:\n"
    "  toolcaddie improve list\n"
    "  toolcaddie improve show improve_1f0c\n"
    "  toolcaddie improve apply improve_1f0c",
)
def command() -> None:
    """List what reviews propose for the files of bots, and decide about it.

    Nothing of a proposal counts before it is applied. PROPOSAL is the id of a proposal.
    """


@command.command("list", epilog="\b\nExample:\n  toolcaddie improve list --bot coach --json")
@click.option("--bot", metavar="BOT", help="Only proposals for this bot.")
@_tenant_option
@database_option
@json_option
@click.pass_obj
def list_(common: Common, bot: str | None, tenant: str, database_url: str | None, as_json: bool) -> None:
    """List the proposals, the newest first."""
    settings = settings_of(common, database_url=database_url)

    async def listed() -> list[Proposal]:
        async with existing_or_empty(settings) as database:
            return list(await stored_proposals(settings, database.store).all(tenant, bot))

    proposals = asyncio.run(listed())
    if as_json:
        print_json({"proposals": proposals})
    elif proposals:
        rows = [
            (each.id, each.bot, each.focus, each.status, local_time(each.made), ", ".join(_paths(each)))
            for each in proposals
        ]
        print_table(("proposal", "bot", "focus", "state", "made", "files"), rows, spare=("made", "files"))
    elif bot is not None:
        note(nothing_such("proposals", bot, settings))
    else:
        note("there are no proposals; bots make them with the tool improve")


@command.command("show", epilog="\b\nExample:\n  toolcaddie improve show improve_1f0c")
@_id_argument
@_tenant_option
@database_option
@json_option
@click.pass_obj
def show(common: Common, proposal_id: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Show the summary and the differences of PROPOSAL."""
    settings = settings_of(common, database_url=database_url)

    async def shown() -> Proposal:
        async with existing_or_empty(settings) as database:
            return await stored_proposals(settings, database.store).find(tenant, proposal_id)

    with _hinted():
        proposal = asyncio.run(shown())
    if as_json:
        print_json(proposal)
        return
    taint = ", ".join(proposal.author.taint)
    facts = [
        ("proposal", f"{proposal.id} ({proposal.status})"),
        ("bot", proposal.bot),
        ("focus", proposal.focus),
        ("made", f"{local_time(proposal.made)} by {proposal.reviewer}, for {proposal.author.who}"),
        *([("after reading", f"untrusted results of {taint}")] if taint else []),
    ]
    for name, value in facts:
        echo(visible_line(f"{name:<14} {value}"))
    echo()
    echo(visible_code(proposal.summary))
    echo()
    print_diff(proposal.diff)


@command.command("apply", epilog="\b\nExample:\n  toolcaddie improve apply improve_1f0c")
@_id_argument
@_tenant_option
@database_option
@json_option
@click.pass_obj
def apply(common: Common, proposal_id: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Apply PROPOSAL: each of its files gets one new version.

    It is refused if a file has changed since the review. The former versions stay.
    """
    settings = settings_of(common, database_url=database_url)
    person = _person(tenant)

    async def applied(proposals: Proposals) -> Proposal:
        return await proposals.apply(await proposals.find(tenant, proposal_id), person)

    _report(_decided(settings, applied), as_json=as_json)


@command.command("reject", epilog='\b\nExamples:\n  toolcaddie improve reject improve_1f0c --note "too bold"')
@_id_argument
@click.option("--note", "reason", default="", help="Why; it is stored with the proposal.")
@_tenant_option
@database_option
@json_option
@click.pass_obj
def reject(common: Common, proposal_id: str, reason: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Reject PROPOSAL. No file changes."""
    settings = settings_of(common, database_url=database_url)
    person = _person(tenant)

    async def rejected(proposals: Proposals) -> Proposal:
        return await proposals.reject(await proposals.find(tenant, proposal_id), person, reason)

    _report(_decided(settings, rejected), as_json=as_json)


def _decided(settings: Settings, decision: Callable[[Proposals], Awaitable[T]]) -> T:
    async def outcome() -> T:
        async with existing(settings) as database:
            return await decision(stored_proposals(settings, database.store))

    with _hinted():
        return asyncio.run(outcome())


def _hinted() -> AbstractContextManager[None]:
    return hinted("unknown_proposal", "`toolcaddie improve list` shows the ids")


def _person(tenant: str) -> Principal:
    return Principal(id=user_name(), tenant=tenant, channel="command line")


def _report(proposal: Proposal, *, as_json: bool) -> None:
    if as_json:
        print_json(proposal)
    else:
        echo(visible_line(f"{proposal.status} {proposal.id}: {', '.join(_paths(proposal))} of {proposal.bot}"))


def _paths(proposal: Proposal) -> list[str]:
    return [change.path for change in proposal.changes]
