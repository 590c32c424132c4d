"""`toolcaddie doctor`: shows which parts of this machine the tools of the source `host` can use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from toolcaddie.core.states import BackEnd
from toolcaddie.doors.back_ends import Report, back_ends_of
from toolcaddie.doors.cli.failure import FAILED
from toolcaddie.doors.cli.options import settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common


@click.command(name="doctor", epilog="\b\nExamples:\n  toolcaddie doctor\n  toolcaddie doctor --json")
@json_option
@click.pass_obj
def command(common: Common, as_json: bool) -> None:
    """Show which parts of this machine the tools of the source host can use.

    It looks at what each group of tools depends on, such as systemd, and changes nothing. Without such a source in
    the settings, it looks at the one that has no settings. A tool whose part is missing fails and says so; all
    others work. The exit code is 1 if one part is missing.
    """
    reports = asyncio.run(back_ends_of(settings_of(common)))
    is_complete = all(each.present for report in reports for each in report.back_ends)
    if as_json:
        print_json({"complete": is_complete, "groups": reports})
    else:
        _print(reports)
    if not is_complete:
        raise click.exceptions.Exit(FAILED)


def _print(reports: Sequence[Report]) -> None:
    rows: list[tuple[object, ...]] = []
    for report in reports:
        if not report.back_ends:
            rows.append((report.source, report.group, "", "works", "depends on nothing"))
        for each in report.back_ends:
            state, detail = ("works", each.detail) if each.present else ("MISSING", _problem(each))
            rows.append((report.source, report.group, each.name, state, detail))
    print_table(("source", "group", "part", "", "detail"), rows, spare=("source",))
    missing = [each for report in reports for each in report.back_ends if not each.present]
    for advice in dict.fromkeys(map(_advice, missing)):
        note(advice)


def _problem(missing: BackEnd) -> str:
    """Returns what is wrong, without what to do about it, which a detail may say after a semicolon."""
    return missing.detail.partition("; ")[0] if missing.remedy else missing.detail


def _advice(missing: BackEnd) -> str:
    """Returns what to do. Parts with one name, such as systemd as a group and as a plugin, have the same advice."""
    name = missing.name.rpartition(": ")[2]
    return f"{name}: {missing.remedy or 'nothing can be done on this machine'}"
