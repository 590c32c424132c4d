"""`toolcaddie persona forget`: everything that a bot has stored about one person, shown or erased."""

from __future__ import annotations

import click
import msgspec

from toolcaddie.app.build import existing
from toolcaddie.bots.people import Arranged
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.persona.desk import bot_argument, on_shelf, place_options
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.shelves import Shelf
from toolcaddie.doors.texts import counted
from toolcaddie.personas.people import PersonData
from toolcaddie.util.text import visible_line


@click.command(
    "forget",
    epilog="\b\nExamples:\n"
    "  toolcaddie persona forget coach --person default/ann --dry-run --json\n"
    "  toolcaddie persona forget coach --person default/ann --yes",
)
@bot_argument
@click.option("--person", required=True, metavar="TENANT/ID", help="The person.")
@click.option("--name", "names", multiple=True, help="A name by which groups know the person. Can be repeated.")
@click.option("--dry-run", is_flag=True, help="Show what is stored, and erase nothing.")
@click.option("--yes", is_flag=True, help="Erase without asking.")
@place_options
@json_option
@click.pass_obj
def forget(
    common: Common,
    bot: str,
    person: str,
    names: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    tenant: str,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Erase what BOT has stored about a person.

    These are facts that the person told, in all versions of the daily logs, and messages, in chats with the person alone and in
    groups; and jobs, messages that wait for an answer, questions about calls, and proposals of reviews that the person asked
    for. Other files may speak of the person; read them.
    """
    place = (bot, tenant, database_url)

    async def stored(shelf: Shelf) -> tuple[PersonData, Arranged]:
        return await shelf.about(person, names)

    async def erased(shelf: Shelf) -> tuple[PersonData, Arranged]:
        return await shelf.forget(person, names)

    data, arranged = on_shelf(common, place, stored)
    is_empty = arranged.is_empty and not (data.facts or data.messages or data.whole_chats)
    if not dry_run and not is_empty:
        if not yes and not _is_confirmed(visible_line(f"Erase {_summary(data, arranged)}?")):
            raise CommandFailed("nothing was erased")
        data, arranged = on_shelf(common, place, erased, database=existing)
    if as_json:
        print_json(msgspec.to_builtins(data) | msgspec.to_builtins(arranged))
    else:
        verb = "stored" if dry_run else "erased"
        echo(
            visible_line(
                f"nothing of {person} is stored by {bot}" if is_empty else f"{verb}: {_summary(data, arranged)}"
            )
        )
        for path in data.written:
            note(visible_line(f"{path} was written for {person}, and may speak of the person; read it"))


def _is_confirmed(question: str) -> bool:
    """Returns the answer of the person at the terminal. Raises `click.Abort` if there is none."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        note("nothing was erased; --yes erases without asking")
        raise


def _summary(data: PersonData, arranged: Arranged) -> str:
    facts, messages = counted(len(data.facts), "fact"), counted(len(data.messages), "message")
    amounts = [
        counted(len(data.whole_chats), "whole chat"),
        *([counted(len(arranged.jobs), "job")] if arranged.jobs else []),
        *([counted(len(arranged.waiting), "waiting message")] if arranged.waiting else []),
        *([counted(len(arranged.questions), "question")] if arranged.questions else []),
        *([counted(len(arranged.proposals), "proposal")] if arranged.proposals else []),
    ]
    return f"{facts} and {messages} of {data.person}, and {', '.join(amounts)} of {data.bot}"
