"""`toolcaddie eval goals`: compares the gains of retries, cache and fallback in the recorded runs with the goals for forced tool
use, in which the model must call a tool."""

from __future__ import annotations

import asyncio

import click
import msgspec

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.eval.parts import limit_option
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import counted
from toolcaddie.evaluation.goals import Goal, Goals, read_goals


@click.command(
    name="goals",
    epilog="\b\nExamples:\n  toolcaddie eval goals\n  toolcaddie eval goals --limit 1000 --json",
)
@limit_option
@database_option
@json_option
@click.pass_context
def goals(ctx: click.Context, limit: int, database_url: str | None, as_json: bool) -> None:
    """Show the effect of retries, cache and fallback."""
    # Options of `eval` may also precede the subcommand: `toolcaddie eval --json goals`.
    as_json = as_json or bool(ctx.parent and ctx.parent.params.get("as_json"))
    settings = settings_of(ctx.find_object(Common) or Common(), database_url=database_url)
    result, unread = asyncio.run(_goals_of_log(settings, limit))
    if not result.runs:
        raise ConfigError("no run is recorded yet, so there is nothing to report; `toolcaddie run MESSAGE` makes one")
    if unread:
        note(f"{counted(unread, 'run')} could not be read and {'is' if unread == 1 else 'are'} omitted")
    if as_json:
        print_json(_goals_json(result))
    else:
        _print(result)


async def _goals_of_log(settings: Settings, limit: int) -> tuple[Goals, int]:
    """Returns the totals of the newest `limit` runs, and the number of runs that could not be read."""
    async with existing_or_empty(settings) as database:
        return await read_goals(database.events, limit=limit)


def _goals_json(result: Goals) -> dict[str, object]:
    record: dict[str, object] = msgspec.to_builtins(result)
    record["goals"] = [{**msgspec.to_builtins(goal), "met": goal.met} for goal in result.goals]
    return record


def _print(result: Goals) -> None:
    echo(
        f"{counted(result.runs, 'run')}; in {result.forced:,} a tool had to be called: {result.called_at_first:,} called one at "
        f"the first attempt, {result.called:,} in the end, {result.by_fallback:,} of them by the fallback"
    )
    echo(
        f"{counted(result.attempts, 'attempt')}, {result.in_vain:,} in vain; {counted(result.calls, 'call')} of tools, "
        f"{result.cached:,} from the cache ({result.seconds_saved:.1f} s saved), {result.retried:,} run again, "
        f"{result.mended:,} of them with success"
    )
    if result.tokens_an_answer is not None and result.tokens_without is not None:
        echo(
            f"tokens of an answer: {result.tokens_an_answer:,.0f}; asked again in new chats instead: {result.tokens_without:,.0f}"
        )
    echo()
    rows = [
        (goal.name, f"{goal.goal:.0%}", _share(goal.reached), _share(goal.most), _verdict(goal))
        for goal in result.goals
    ]
    print_table(("goal", "aim", "reached", "at most", ""), rows, right=("aim", "reached", "at most"))


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _verdict(goal: Goal) -> str:
    if goal.met is None:
        return "too little is recorded to say"
    if goal.met:
        return "met"
    return "missed, and out of reach here" if goal.most is not None and goal.most < goal.goal else "missed"
