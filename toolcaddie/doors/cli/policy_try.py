"""`toolcaddie policy try`: judges the recorded calls by other rules, and shows which decisions would differ."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from toolcaddie.app.build import existing, existing_or_empty
from toolcaddie.app.runtimes import bots_of, catalog_of, whole_catalog_of
from toolcaddie.app.settings import PartSettings, Settings, load_settings
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.control.policy.cedar.explaining import Replay
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.storage import ApiKey
from toolcaddie.doors.cli.failure import FAILED
from toolcaddie.doors.cli.options import catalog_option, database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.policy_sheets import policy_in, problems_of_rules, replayed
from toolcaddie.doors.texts import counted, shortened
from toolcaddie.storage.database import exists
from toolcaddie.util.replacing import replace

_ARGUMENTS_SHOWN = 40


@click.command(
    "try",
    epilog="\b\nExamples:\n"
    "  toolcaddie policy try stricter.cedar --catalog gym\n"
    "  toolcaddie policy try other.toml --catalog gym --runs 100 --json",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--runs", type=click.IntRange(min=1), default=1_000, show_default=True, help="Number of runs, the newest first."
)
@catalog_option
@database_option
@json_option
@click.pass_obj
def command(
    common: Common, file: Path, runs: int, catalogs: tuple[str, ...], database_url: str | None, as_json: bool
) -> None:
    """Judge the recorded calls by the rules in FILE, and show the decisions that would differ.

    FILE is a file of Cedar rules, which replaces the files of the settings, or another settings file, whose table [policy]
    replaces that of the settings. Mistakes in these rules, as `policy check` finds them, are printed first. Nothing is changed.
    The exit code is 1 if a decision differs.
    """
    settings = settings_of(common, catalogs=catalogs, database_url=database_url)
    tried = _with_policy(settings, file)
    policy, catalog = policy_in(tried), catalog_of(settings)
    for problem in asyncio.run(problems_in(tried, policy, whole_catalog_of(settings))):
        note(problem)
    result = asyncio.run(_replayed(settings, policy, catalog, runs))
    if as_json:
        print_json(result)
    else:
        _print(result)
    if result.differences:
        raise click.exceptions.Exit(FAILED)


async def problems_in(settings: Settings, policy: CedarPolicy, catalog: Catalog) -> Sequence[str]:
    """Returns what is wrong with the rules of a policy, and which of their names nothing has. `settings`: those with this policy;
    `catalog`: all tools, also those of categories that are not enabled."""
    return problems_of_rules(settings, policy, catalog, await _keys(settings))


async def _keys(settings: Settings) -> Sequence[ApiKey]:
    """Returns the API keys of the database; none if there is no database yet."""
    if not exists(settings.database_url):
        return ()
    async with existing(settings) as database:
        return await database.keys.list()


def _with_policy(settings: Settings, file: Path) -> Settings:
    """Returns the settings with the policy of a file."""
    if file.suffix == ".toml":
        return replace(settings, policy=load_settings(file).policy)
    config: dict[str, Any] = {} if settings.policy is None else dict(settings.policy.config)
    return replace(settings, policy=PartSettings(type="cedar", config={**config, "files": [str(file)]}))


async def _replayed(settings: Settings, policy: CedarPolicy, catalog: Catalog, most: int) -> Replay:
    """Judges the calls of the newest runs."""
    async with existing_or_empty(settings) as database:
        return await replayed(database.events, policy, Visibility(bots_of(settings)), catalog, most=most)


def _print(result: Replay) -> None:
    if result.differences:
        rows = [
            (
                each.run_id,
                each.principal,
                each.tool,
                shortened(each.arguments, _ARGUMENTS_SHOWN),
                each.recorded,
                each.outcome,
                ", ".join(each.rules),
            )
            for each in result.differences
        ]
        print_table(
            ("run", "principal", "tool", "arguments", "recorded", "now", "rules"), rows, spare=("rules", "arguments")
        )
    note(f"{len(result.differences)} of {counted(result.calls, 'recorded call')} would be decided otherwise")
    if result.unknown_tools:
        names = ", ".join(sorted(result.unknown_tools)[:10])
        note(f"not judged, because the catalog lacks their tools: {sum(result.unknown_tools.values())} ({names})")
    if result.cut:
        note(f"judged without arguments, because the record does not have them whole: {result.cut}")
