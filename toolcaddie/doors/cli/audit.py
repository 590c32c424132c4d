"""`toolcaddie audit`: checks that nobody changed the trail, keeps its end elsewhere, and exports it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
import msgspec

from toolcaddie.app.auditing import key_in
from toolcaddie.app.build import existing
from toolcaddie.app.settings import names_variable
from toolcaddie.core.errors import RequestError
from toolcaddie.doors.audit_sheets import LINES, Format, moment_in, warnings_of
from toolcaddie.doors.cli.echo import echo, echo_json
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import counted
from toolcaddie.storage.audits import RowQuery
from toolcaddie.storage.database import Database
from toolcaddie.storage.verification import Anchor, Verification, read_anchors
from toolcaddie.util.text import visible_json

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

_CHANGED = 1
"""Exit status of a check that finds a change."""


def _anchor_option(text: str) -> Callable[[Command], Command]:
    """Returns the option for a file of `audit anchor`, with its help text."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option("--anchor", "anchor_file", type=file, metavar="FILE", help=text)


@click.group(
    name="audit",
    epilog="\b\nExamples:\n"
    "  toolcaddie audit verify\n"
    "  toolcaddie audit anchor heads.jsonl\n"
    "  toolcaddie audit verify --anchor heads.jsonl\n"
    "  toolcaddie audit export --format ocsf --since 24h --output trail.jsonl",
)
def command() -> None:
    """Check that nobody changed the trail, and export it."""


@command.command(
    "verify",
    epilog="\b\nExamples:\n  toolcaddie audit verify\n  toolcaddie audit verify --anchor heads.jsonl --json",
)
@_anchor_option("File of `audit anchor`, to notice rows cut off at the end.")
@database_option
@json_option
@click.pass_obj
def verify(common: Common, anchor_file: Path | None, database_url: str | None, as_json: bool) -> None:
    """Check every row of the trail; exit status 1 if one was changed.

    Names the rows that were changed, removed, added or moved.
    """
    anchors = [] if anchor_file is None else _anchors(anchor_file)
    report = _with_database(common, database_url, lambda database: database.audits.verify(anchors))
    if as_json:
        warnings = list(warnings_of(report))
        print_json({"ok": not report.changes_total, **msgspec.structs.asdict(report), "warnings": warnings})
    else:
        _print_report(report)
    if report.changes_total:
        sys.exit(_CHANGED)


@command.command("anchor", epilog="\b\nExample:\n  toolcaddie audit anchor /mnt/elsewhere/heads.jsonl")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@database_option
@json_option
@click.pass_obj
def anchor(common: Common, file: Path, database_url: str | None, as_json: bool) -> None:
    """Append the present end of the trail, sealed, to FILE.

    Keep FILE where those who can write the database cannot write:
    `audit verify --anchor FILE` then notices rows cut off at the end.
    """
    head = _with_database(common, database_url, lambda database: database.audits.anchor())
    try:
        with file.open("ab") as lines:
            lines.write(msgspec.json.encode(head) + b"\n")
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from error
    if as_json:
        print_json(head)
    else:
        echo(f"row {head.position} of trail {head.trail} is the last one; appended to {file}")


@command.command(
    "rekey",
    epilog="\b\nExamples:\n  toolcaddie audit rekey --anchor heads.jsonl\n  toolcaddie audit rekey --from-env OLD_TRAIL_KEY",
)
@click.option("--from-env", metavar="NAME", help="Variable that holds the old key. [default: there was none]")
@_anchor_option("File of `audit anchor`, written before there was a key.")
@click.option("--accept-unsealed", is_flag=True, help="Trust a trail without a key as it is, without an anchor.")
@database_option
@json_option
@click.pass_obj
def rekey(
    common: Common,
    from_env: str | None,
    anchor_file: Path | None,
    accept_unsealed: bool,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Seal the whole trail with the key of the settings.

    First every row is checked with the old key. If there was none, the
    trail may be forged: give --anchor or --accept-unsealed. Stop all
    processes before, and write anchors to a new file afterwards: those of
    the old file have the old key.
    """
    if from_env is not None and not names_variable(from_env):
        raise click.BadParameter("name the variable that holds the key", param_hint="--from-env")
    old_key = None if from_env is None else key_in(from_env)
    anchors = [] if anchor_file is None else _anchors(anchor_file)
    rows = _with_database(
        common,
        database_url,
        lambda database: database.audits.rekey(old_key, anchors=anchors, accept_unsealed=accept_unsealed),
    )
    if as_json:
        print_json({"rows": rows})
    else:
        echo(f"{counted(rows, 'row')} checked, and sealed again")


@command.command(
    "export",
    epilog="\b\nExamples:\n"
    "  toolcaddie audit export --since 24h > trail.jsonl\n"
    "  toolcaddie audit export --run run_0123\n"
    "  toolcaddie audit export --format ocsf --principal ann --output ann.jsonl",
)
@click.option(
    "--format",
    "as_format",
    type=click.Choice(["jsonl", "ocsf"]),
    default="jsonl",
    show_default=True,
    help="Rows as they are, or as OCSF events (API Activity).",
)
@click.option("--since", metavar="TIME", help="First moment: 24h, 2026-01-31 or 2026-01-31T12:00.")
@click.option("--until", metavar="TIME", help="First moment that is not exported any more.")
@click.option("--run", "run_id", metavar="ID", help="Only the rows of this run.")
@click.option("--principal", metavar="ID", help="Only runs of this principal.")
@click.option("--tenant", metavar="NAME", help="Only runs of this tenant.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File to write. [default: the terminal]",
)
@database_option
@json_option
@click.pass_obj
def export(
    common: Common,
    as_format: Format,
    since: str | None,
    until: str | None,
    run_id: str | None,
    principal: str | None,
    tenant: str | None,
    output: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Print the rows of the trail, one JSON object a line.

    With --json the number of rows is printed too, as JSON on stderr.
    """
    query = RowQuery(
        run_id=run_id,
        principal=principal,
        tenant=tenant,
        since=_moment(since, "--since"),
        until=_moment(until, "--until"),
    )
    try:
        with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8") as lines:
            count = _with_database(common, database_url, lambda database: _write(database, query, as_format, lines))
    except OSError as error:
        if output is None:  # the program that reads stdout has ended
            raise
        raise CommandFailed(f"{output} cannot be written: {error.strerror}") from error
    if as_json:
        echo_json(msgspec.json.encode({"rows": count}).decode(), err=True)
    elif output is not None:
        note(f"{counted(count, 'row')} written to {output}")
    if not count and not as_json:
        options = {"--run": run_id, "--principal": principal, "--tenant": tenant, "--since": since, "--until": until}
        conditions = [f"{option} {value}" for option, value in options.items() if value is not None]
        note(f"no row of the trail matches {' and '.join(conditions)}" if conditions else "the trail has no rows")


async def _write(database: Database, query: RowQuery, as_format: Format, lines: TextIO) -> int:
    """Writes the rows of a query to `lines` and returns their number. Only one page of rows is in memory at a time."""
    form = LINES[as_format]
    count = 0
    async for row in database.audits.rows(query):
        lines.write(visible_json(msgspec.json.encode(form(row)).decode()) + "\n")
        count += 1
    lines.flush()
    return count


def _moment(text: str | None, option: str) -> float | None:
    """Returns a moment in seconds since the epoch, from an age such as 24h or a date of the local time zone."""
    try:
        return None if text is None else moment_in(text)
    except RequestError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _anchors(file: Path) -> Sequence[Anchor]:
    try:
        anchors = read_anchors(file.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} has a line that `toolcaddie audit anchor` did not write: {error}") from error
    if not anchors:
        raise CommandFailed(f"{file} has no anchor; `toolcaddie audit anchor {file}` writes one")
    return anchors


def _print_report(report: Verification) -> None:
    for change in report.changes:
        echo(change.what if change.row is None else f"row {change.row} {change.what}")
    if report.changes_total > len(report.changes):
        echo(f"and {counted(report.changes_total - len(report.changes), 'change')} more")
    if report.changes_total and report.changes_total == report.anchors_of_other_keys:
        echo(
            f"{counted(report.checked, 'row')} checked, no change; "
            f"{counted(report.anchors_of_other_keys, 'anchor')} of another key could not be compared"
        )
        return
    if report.changes_total:
        echo(f"{counted(report.changes_total, 'change')}: the trail is not as it was written")
        return
    sealed = "with a key" if report.keyed else "without a key"
    echo(f"{counted(report.checked, 'row')} checked, no change (sealed {sealed}; the last row is {report.position})")
    if report.pruned:
        echo(f"{counted(report.pruned, 'row')} pruned, on sealed record")
    if report.before_chain:
        echo(f"{counted(report.before_chain, 'row')} written before there was a chain, not checked")
    if report.anchors:
        echo(f"{counted(report.anchors, 'anchor')} compared")
    for warning in warnings_of(report):
        note(f"warning: {warning}")
    if report.anchors_pruned:
        echo(f"{counted(report.anchors_pruned, 'anchor')} not compared, because the rows were pruned on sealed record")


def _with_database(common: Common, database_url: str | None, query: Callable[[Database], Awaitable[T]]) -> T:
    """Opens the database, and returns the result of the query."""
    settings = settings_of(common, database_url=database_url)

    async def answer() -> T:
        async with existing(settings) as database:
            return await query(database)

    return asyncio.run(answer())
