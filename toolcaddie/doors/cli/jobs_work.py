"""`toolcaddie jobs work`: shows which processes do durable work, what each of them does, and what waits."""

from __future__ import annotations

import asyncio

import click
import msgspec

from toolcaddie.app.build import existing_or_empty
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import local_time
from toolcaddie.jobs.replicas import ReplicaWork, WorkReport, work_report
from toolcaddie.storage.engines import BUSY_SECONDS, engine_of, parse_url


@click.command(
    "work",
    epilog="\b\nExamples:\n  toolcaddie jobs work\n  toolcaddie jobs work --tenant acme\n"
    "  toolcaddie jobs work --json --database-url postgresql://user@host/db",
)
@click.option("--tenant", metavar="TENANT", help="Only the pieces of work of this tenant.")
@database_option
@json_option
@click.pass_obj
def work(common: Common, tenant: str | None, database_url: str | None, as_json: bool) -> None:
    """Show the processes that do durable work, what each does, and what waits.

    Durable work are the runs of jobs, deferred requests, evaluations, and what bots ask each other. The processes are those of
    all servers with the same database.
    """
    settings = settings_of(common, database_url=database_url)

    async def read() -> WorkReport:
        url = parse_url(settings.database_url)
        async with existing_or_empty(settings) as database:
            engine = engine_of(url, in_memory=False, busy=BUSY_SECONDS)
            try:
                return await work_report(database.store, url, engine, tenant=tenant)
            finally:
                engine.dispose()

    report = asyncio.run(read())
    if as_json:
        print_json(msgspec.to_builtins(report))
        return
    if not report.replicas:
        note("no process does durable work; `toolcaddie serve` does it once there is some")
    for each in report.replicas:
        _print_replica(each)
    if report.waiting:
        echo("waiting:")
        rows = [(each.kind, each.tenant or "", f"{each.count:,}", local_time(each.oldest)) for each in report.waiting]
        print_table(("kind", "tenant", "pieces", "oldest"), rows, right=("pieces",))


def _print_replica(work: ReplicaWork) -> None:
    replica = work.replica
    where = f"lease {work.lease}" if replica is None else f"{replica.host} process {replica.pid}"
    since = "" if replica is None else f", since {local_time(replica.since)}"
    state = "alive" if work.alive else "dead"
    echo(f"{where}: {state}{since}{'' if work.pieces else ', does nothing now'}")
    if work.pieces:
        rows = [
            (each.id, each.kind, each.tenant or "", local_time(each.since), f"{each.starts:,}") for each in work.pieces
        ]
        print_table(("piece", "kind", "tenant", "since", "starts"), rows, spare=("starts", "since"), right=("starts",))
