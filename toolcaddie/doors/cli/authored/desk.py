"""What all commands of `toolcaddie authored` share: the person who decides, the service, and how a decision is reported."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import click

from toolcaddie.app.authoring import authorship_of
from toolcaddie.app.build import existing, existing_or_empty
from toolcaddie.app.runtimes import bots_of, host_parts, policy_of
from toolcaddie.app.sandboxes import SandboxOnDemand
from toolcaddie.app.settings import Settings
from toolcaddie.audit.trail import Trail
from toolcaddie.control.approvals import StoredApprovals
from toolcaddie.control.approvers import JudgedApprovals
from toolcaddie.control.policy.current import CurrentPolicy
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.control import Principal
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.output import print_json
from toolcaddie.doors.reviewing import Reviews
from toolcaddie.registry import Registry
from toolcaddie.storage.database import Database
from toolcaddie.tools.authored.values import AuthoredTool
from toolcaddie.util.replacing import replace
from toolcaddie.util.text import visible_line
from toolcaddie.util.user import user_name

T = TypeVar("T")

key_argument = click.argument("key")
tenant_option = click.option("--tenant", default="default", show_default=True, help="Tenant whose tools are meant.")
note_option = click.option("--note", default="", help="Why; it is recorded with the decision.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The person of the command line, and the tools that this person may see."""

    person: Principal
    reviews: Reviews


def asked(settings: Settings, tenant: str, question: Callable[[Desk], Awaitable[T]]) -> T:
    """Returns the answer to a question that changes nothing. If nothing has run yet, there is no database, and none is made."""

    async def answer() -> T:
        async with existing_or_empty(settings) as database, _desk(settings, database, tenant) as desk:
            return await question(desk)

    return asyncio.run(answer())


def decided(settings: Settings, tenant: str, decision: Callable[[Desk], Awaitable[T]]) -> T:
    """Returns the outcome of a decision, which is stored in the database of the settings."""

    async def outcome() -> T:
        async with existing(settings) as database, _desk(settings, database, tenant) as desk:
            return await decision(desk)

    return asyncio.run(outcome())


def report(tool: AuthoredTool, *, as_json: bool) -> None:
    """Prints a tool after a decision about it."""
    if as_json:
        print_json(tool)
    else:
        echo(visible_line(f"{tool.status} {tool.definition.name} ({tool.id}), digest {tool.digest[:12]}"))


def confirm(question: str, refusal: str) -> None:
    """Asks the person at the terminal, if there is one. Raises `CommandFailed` with the refusal after a no."""
    if sys.stdin.isatty() and not click.confirm(question, err=True):
        raise CommandFailed(refusal)


@asynccontextmanager
async def _desk(settings: Settings, database: Database, tenant: str) -> AsyncIterator[Desk]:
    sandbox = SandboxOnDemand(settings)
    parts = replace(host_parts(settings, database.store), sandbox=sandbox)
    approvals = JudgedApprovals(
        StoredApprovals(database.store, emit=Trail(database.events).emit),
        CurrentPolicy(policy_of(settings, Registry(), parts)),
        Visibility(bots_of(settings)),
    )
    person = Principal(id=user_name(), tenant=tenant, channel="command line")
    try:
        yield Desk(person=person, reviews=Reviews(authorship_of(settings, parts), approvals))
    finally:
        await sandbox.close()
