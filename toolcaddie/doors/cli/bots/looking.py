"""`toolcaddie bots list` and `show`: the bots of the settings with the tools that they have in each mode."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.runtimes import offline
from toolcaddie.app.settings import Settings
from toolcaddie.control.bots import Bot
from toolcaddie.core.errors import RequestError
from toolcaddie.core.key_limits import Allowance
from toolcaddie.doors.bot_sheets import MODES, missing_in, model_text, tools_in, used_of
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.options import database_option, no_such_bot, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import shortened
from toolcaddie.runtime import Runtime

_DESCRIPTION_SHOWN = 60
_NO_BOTS = "there are no bots; `toolcaddie bots new NAME` adds one"
_NO_TOOLS = 'there are no tools: add some to the settings, such as [[source]] with type = "persona"'


@click.command("list", epilog="\b\nExample:\n  toolcaddie bots list --json")
@json_option
@click.pass_obj
def list_(common: Common, /, as_json: bool) -> None:
    """List the bots, and how many tools each has."""
    settings = settings_of(common)
    runtime = offline(settings, needs_catalog=False)
    bots = [_bot_json(name, bot, runtime) for name, bot in settings.bots.items()]
    if as_json:
        print_json({"bots": bots, "count": len(bots)})
        return
    if not bots:
        note(_NO_BOTS)
        return
    rows = [
        (
            bot["name"],
            shortened(bot["description"], _DESCRIPTION_SHOWN),
            model_text(bot["model"], settings),
            "all" if bot["groups"] is None else ", ".join(bot["groups"]),
            *(len(bot["tools"][mode]) for mode in MODES),
        )
        for bot in bots
    ]
    print_table(("bot", "description", "model", "groups", *MODES), rows, right=MODES, spare=("description", "groups"))
    if not runtime.source.snapshot():
        note(_NO_TOOLS)


@click.command("show", epilog="\b\nExample:\n  toolcaddie bots show therapist")
@click.argument("name")
@database_option
@json_option
@click.pass_obj
def show(common: Common, /, name: str, database_url: str | None, as_json: bool) -> None:
    """Show the tools of a bot, and its budget.

    The tools are listed for each mode, with the setting that removes each missing one.
    """
    settings = settings_of(common, database_url=database_url)
    if name not in settings.bots:
        raise RequestError(no_such_bot(name, settings), param="name", code="unknown_bot")
    bot, runtime = settings.bots[name], offline(settings, needs_catalog=False)
    record = _bot_json(name, bot, runtime)
    missing = {mode: missing_in(name, mode, record["tools"][mode], runtime) for mode in MODES}
    used = asyncio.run(_used(settings, name, runtime))
    if as_json:
        budget = [{"counted": each.counted, "limit": each.limit, "used": each.used} for each in used]
        print_json({**record, "missing": missing, "budget": budget})
        return
    echo(name, nl=False, bold=True)
    echo(f"  {bot.description}".rstrip())
    echo(f"model {model_text(bot.model, settings)}, persona {bot.persona or 'none'}, language {bot.language}")
    for mode in MODES:
        if mode != MODES[0] and missing[mode] == missing[MODES[0]]:
            echo(f"\n{mode}: as in {MODES[0]}")
            continue
        echo(f"\n{mode}: {', '.join(record['tools'][mode]) or 'no tools'}")
        for setting in dict.fromkeys(missing[mode].values()):
            tools = [tool for tool, its in missing[mode].items() if its == setting]
            echo(f"  without {', '.join(tools)} ({setting})")
    echo()
    for each in used:
        echo(f"{each.counted} today: {each.used:,.6g} of {each.limit:,.6g}")
    if not used:
        echo("no budget")


def _bot_json(name: str, bot: Bot, runtime: Runtime) -> dict[str, Any]:
    return {
        "name": name,
        "description": bot.description,
        "model": bot.model,
        "groups": bot.groups,
        "tools": {mode: tools_in(name, mode, runtime) for mode in MODES},
    }


async def _used(settings: Settings, name: str, runtime: Runtime) -> Sequence[Allowance]:
    async with existing_or_empty(settings) as database:
        return await used_of(name, settings, runtime, database.meter)
