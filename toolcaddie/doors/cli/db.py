"""`toolcaddie db`: shows the contents of the database, removes old runs and sessions of bots, and copies the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from toolcaddie.app.auditing import audit_key, note_secrets
from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.settings import age_seconds
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.progress import progress
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import counted, local_time
from toolcaddie.jobs.scheduler import EARLIER_WORK, WORK
from toolcaddie.jobs.unfinished import unfinished_work
from toolcaddie.personas import StoredChats
from toolcaddie.storage.copying import copy_database
from toolcaddie.storage.database import Database
from toolcaddie.storage.engines import BUSY_SECONDS, engine_of, parse_url
from toolcaddie.storage.prunings import Pruned
from toolcaddie.storage.retention import Statistics
from toolcaddie.tools.team.pruning import old_session_chats, prune_sessions
from toolcaddie.util.user import user_name

T = TypeVar("T")

_SLOTS = (WORK, EARLIER_WORK)
"""Kinds of durable work that have rows of their own besides."""
_BATCH = 200
"""Number of runs that are removed in one transaction. A server's own pruning removes fewer, so that requests wait less; here a
person waits for the end."""


@click.group(
    name="db",
    epilog="\b\nExamples:\n"
    "  toolcaddie db stats\n"
    "  toolcaddie db prune --older-than 90d --dry-run\n"
    "  toolcaddie db prune --older-than 90d --shrink\n"
    "  toolcaddie db copy sqlite:///old.sqlite postgresql://user@host/db",
)
def command() -> None:
    """Show the size of the database, remove old runs, and copy it."""


@command.command("stats", epilog="\b\nExample:\n  toolcaddie db stats --json")
@database_option
@json_option
@click.pass_obj
def stats(common: Common, database_url: str | None, as_json: bool) -> None:
    """Show the number of runs, rows and documents, and past prunings."""
    statistics = _with_database(common, database_url, lambda database: database.retention.statistics())
    prunings = _with_database(common, database_url, lambda database: database.retention.prunings())
    if as_json:
        print_json({"held": statistics, "prunings": prunings})
        return
    print_table(("what", "how many", ""), _rows(statistics), right=("how many",))
    for pruning in prunings:
        note(
            f"{local_time(pruning.at)}  {pruning.by} removed {counted(pruning.runs, 'run')} that ended before "
            f"{local_time(pruning.cutoff)}: {counted(pruning.events, 'row')} between {pruning.first_event} and "
            f"{pruning.last_event}"
        )


@command.command(
    "prune",
    epilog="\b\nExamples:\n"
    "  toolcaddie db prune --older-than 90d --dry-run\n"
    "  toolcaddie db prune --older-than 12w --shrink",
)
@click.option("--older-than", required=True, metavar="AGE", help="Remove runs that ended longer ago: 12h, 90d, 8w.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option(
    "--shrink", is_flag=True, help="Return all free space of an SQLite file to the disk. Writers wait meanwhile."
)
@database_option
@json_option
@click.pass_obj
def prune(
    common: Common, older_than: str, dry_run: bool, shrink: bool, database_url: str | None, as_json: bool
) -> None:
    """Remove old runs with their trail, chats of old sessions between bots, and documents that have expired.

    Runs that are in progress or wait for an approval are kept, and so are chats of people. Each removal of runs is recorded with
    runs, time and user.
    """
    seconds = _seconds(older_than)

    async def removal(database: Database) -> tuple[Pruned, int]:
        store, chats = database.store, StoredChats(database.store)
        if dry_run:
            old = await old_session_chats(store, chats, older_than=seconds)
            return await database.retention.prunable(seconds), len(old)
        report = await database.retention.prune(seconds, by=f"{user_name()}: toolcaddie db prune", batch=_BATCH)
        sessions = await prune_sessions(store, chats, older_than=seconds)
        if shrink:
            await database.shrink()
        return report, sessions

    report, sessions = _with_database(common, database_url, removal)
    if as_json:
        counts = {"runs": report.runs, "rows": report.events, "documents": report.documents, "session_chats": sessions}
        print_json({"dry_run": dry_run, **counts})
        return
    verb = "would remove" if dry_run else "removed"
    echo(
        f"{verb} {counted(report.runs, 'run')} ({counted(report.events, 'row')} of the trail) and "
        f"{counted(report.documents, 'expired document')}"
    )
    if sessions:
        echo(f"{verb} {counted(sessions, 'chat')} of sessions between bots")


@command.command(
    "copy",
    epilog="\b\nExamples:\n"
    "  toolcaddie db copy sqlite:///old.sqlite postgresql://user@host/db\n"
    "  toolcaddie db copy postgresql://user@host/db sqlite:///new.sqlite --json",
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--leave-work", is_flag=True, help="Copy although bots have work for each other that has not ended.")
@json_option
@click.pass_obj
def copy(common: Common, source: str, target: str, leave_work: bool, as_json: bool) -> None:
    """Copy the database at the URL FROM into the empty one at TO.

    Copies all tables between SQLite and PostgreSQL, or between two
    databases of a kind, and checks the trail in the copy. Stop all
    processes that use FROM before. FROM is only read. A copy that fails
    or is interrupted leaves TO empty.
    """
    settings = settings_of(common)
    note_secrets(settings.audit)
    if not leave_work:
        _require_no_work(source)
    with progress("copying the database") as report_progress:
        result = copy_database(source, target, audit_key=audit_key(settings.audit), progress=report_progress)
    rows, checked = sum(result.tables.values()), result.verification.checked
    if as_json:
        print_json({"tables": result.tables, "rows": rows, "seconds": round(result.seconds, 3), "verified": checked})
        return
    print_table(("table", "rows"), [(name, f"{number:,}") for name, number in result.tables.items()], right=("rows",))
    checks = f"{counted(checked, 'row')} of the trail checked in the copy, no change"
    echo(f"{counted(rows, 'row')} copied in {result.seconds:.1f} s; {checks}")


def _require_no_work(source: str) -> None:
    """Raises `CommandFailed` if there is durable work that has not ended, such as that of bots for each other: it is in the
    tables of the durable queue, which are not copied. Jobs are put into the queue of the copy from their own rows."""
    url = parse_url(source)
    engine = engine_of(url, in_memory=False, busy=BUSY_SECONDS)
    try:
        pieces = sum(number for kind, number in unfinished_work(url, engine).items() if kind not in _SLOTS)
    finally:
        engine.dispose()
    if pieces:
        raise CommandFailed(
            f"FROM has {counted(pieces, 'piece')} of durable work that did not end, which a copy leaves behind; "
            "start `toolcaddie serve` on it until the work is done, stop it and copy again, or copy with --leave-work"
        )


def _seconds(age: str) -> float:
    """Returns the seconds of `--older-than`. Raises `ConfigError` or `click.BadParameter`."""
    seconds = age_seconds(age)
    if seconds is None:
        raise click.BadParameter('"off" removes nothing; write an age such as 90d', param_hint="--older-than")
    return seconds


def _rows(statistics: Statistics) -> list[tuple[str, str, str]]:
    """Returns the rows of the table of `db stats`: a name, a number and a remark each."""
    oldest = f"the oldest began {local_time(statistics.oldest_run)}" if statistics.oldest_run else ""
    free = "" if statistics.free is None else f"{statistics.free:,} of them free for new rows"
    return [
        ("runs", f"{sum(statistics.runs.values()):,}", oldest),
        *((f"runs {status}", f"{number:,}", "") for status, number in sorted(statistics.runs.items())),
        ("rows of the trail", f"{statistics.events:,}", ""),
        *((f"documents {kind}", f"{number:,}", "") for kind, number in sorted(statistics.documents.items())),
        ("documents expired", f"{statistics.expired_documents:,}", ""),
        ("bytes", f"{statistics.size:,}", free),
    ]


def _with_database(common: Common, database_url: str | None, query: Callable[[Database], Awaitable[T]]) -> T:
    """Opens the database, and returns the result of the query."""
    settings = settings_of(common, database_url=database_url)

    async def answer() -> T:
        async with existing_or_empty(settings) as database:
            return await query(database)

    return asyncio.run(answer())
