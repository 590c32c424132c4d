"""`toolcaddie doctor`: shows which parts of this machine the tools of the source `host` can use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import click

from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.sandboxes import SandboxOnDemand
from toolcaddie.app.settings import PartSettings, Settings
from toolcaddie.core.states import BackEnd
from toolcaddie.doors.cli.failure import FAILED
from toolcaddie.doors.cli.options import settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.registry import Registry
from toolcaddie.sources.arranged import arrangement_of
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.tools.host import HostSource
from toolcaddie.tools.host.groups import Group, looked_at

_TYPE = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The parts of this machine on which one group of tools depends."""

    source: int
    """The number of the source among those of its type in the settings."""
    group: str
    tools: int
    back_ends: Sequence[BackEnd]
    """Empty: the group depends on nothing."""


@click.command(name="doctor", epilog="\b\nExamples:\n  toolcaddie doctor\n  toolcaddie doctor --json")
@json_option
@click.pass_obj
def command(common: Common, as_json: bool) -> None:
    """Show which parts of this machine the tools of the source host can use.

    It looks at what each group of tools depends on, such as systemd, and changes nothing. Without such a source in
    the settings, it looks at the one that has no settings. A tool whose part is missing fails and says so; all
    others work. The exit code is 1 if one part is missing.
    """
    reports = asyncio.run(_reports(settings_of(common)))
    is_complete = all(each.present for report in reports for each in report.back_ends)
    if as_json:
        print_json({"complete": is_complete, "groups": reports})
    else:
        _print(reports)
    if not is_complete:
        raise click.exceptions.Exit(FAILED)


async def _reports(settings: Settings) -> Sequence[Report]:
    """Returns the reports of all groups. The sources are not opened. Raises `ConfigError`."""
    sandbox = SandboxOnDemand(settings)
    registry, parts = Registry(), host_parts(settings, MemoryStore())
    tables = [part for part in settings.source if part.type == _TYPE] or [PartSettings(type=_TYPE)]
    reports: list[Report] = []
    try:
        for number, table in enumerate(tables, 1):
            own, _ = arrangement_of(table.config, registry.config_type("source", _TYPE))
            source: HostSource = registry.make("source", _TYPE, own, parts)
            try:
                reports += [await _report(number, group) for group in source.groups]
            finally:
                await source.close()  # the connections that looking has opened
    finally:
        await sandbox.close()
    return reports


async def _report(number: int, group: Group) -> Report:
    back_ends = await looked_at(group.name, group.back_ends)
    return Report(source=number, group=group.name, tools=len(tuple(group.source.tools())), back_ends=back_ends)


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
