"""The options of `toolcaddie keys` for the limits of a key, and `toolcaddie usage`: what keys have used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import msgspec

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RequestError
from toolcaddie.core.key_limits import BILLION, LIMIT_NAMES, KeyUsage
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.key_sheets import dollars_text, last_days, limit_in


class _Limit(click.ParamType[Any]):
    """A number, or one of the words `none` (no limit, whatever the settings say) and `default` (the limit of the settings)."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return limit_in(str(value), str(param.name) if param is not None else "")
        except RequestError as error:
            self.fail(str(error), param, ctx)


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an option for each limit."""
    for name in reversed(LIMIT_NAMES):
        counted, _, span = name.partition("_per_")
        text = f"{counted.capitalize()} per {span}, none, or default."
        command = click.option(f"--{name.replace('_', '-')}", name, type=_Limit(), metavar="N", help=text)(command)
    return command


# --- usage ------------------------------------------------------------------------------------------------------------


@click.group(name="usage", epilog="\b\nExample:\n  toolcaddie usage keys --days 7")
def command() -> None:
    """Show how much the clients of the gateway have used."""


@command.command(
    "keys",
    epilog="\b\nExamples:\n"
    "  toolcaddie usage keys\n"
    "  toolcaddie usage keys --days 7 --key laptop\n"
    "  toolcaddie usage keys --json",
)
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="Number of days, with today.")
@click.option("--key", "name", metavar="ID|NAME", help="Only this key.")
@database_option
@json_option
@click.pass_obj
def keys(common: Common, days: int, name: str | None, database_url: str | None, as_json: bool) -> None:
    """Show what each API key has used, by day (UTC) and model.

    A model without a known price counts tokens only. The tokens of a request whose answer did not report them are estimated.
    """
    settings = settings_of(common, database_url=database_url)
    rows, names = asyncio.run(_usage(settings, days, name))
    if as_json:
        print_json({"usage": [{**msgspec.to_builtins(row), "key": names.get(row.key_id)} for row in rows]})
    elif not rows:
        note("no key has been used in this time")
    else:
        _print(rows, names)


async def _usage(settings: Settings, days: int, name: str | None) -> tuple[Sequence[KeyUsage], Mapping[str, str]]:
    """Returns the use of keys, and the names of the keys by id."""
    async with existing_or_empty(settings) as database:
        names = {key.id: key.name for key in await database.keys.list()}
        key_id = None if name is None else next((key for key, its in names.items() if name in (key, its)), "")
        if key_id == "":
            raise RequestError(f"there is no key {name!r}; `toolcaddie keys list` shows them", code="key_not_found")
        first, last = last_days(days)
        return await database.meter.usage(first=first, last=last, key_id=key_id), names


def _print(rows: Sequence[KeyUsage], names: Mapping[str, str]) -> None:
    lines = [
        (
            row.day,
            names.get(row.key_id, row.key_id),
            row.model or "(no model)",
            f"{row.requests:,}",
            f"{row.input_tokens:,}",
            f"{row.cached_tokens:,}",
            f"{row.output_tokens:,}",
            dollars_text(row),
        )
        for row in rows
    ]
    columns = ("day", "key", "model", "requests", "input", "cached", "output", "dollars")
    print_table(columns, lines, right=columns[3:], spare=("cached",))
    dollars = sum(row.money for row in rows) / BILLION
    tokens = sum(row.input_tokens + row.output_tokens for row in rows)
    note(f"{sum(row.requests for row in rows):,} requests, {tokens:,} tokens, {dollars:,.4f} dollars")
    if unpriced := sum(row.unpriced for row in rows):
        note(f"{unpriced:,} of these requests went to a model without a known price: their dollars are not counted")
    if estimated := sum(row.estimated for row in rows):
        note(f"{estimated:,} of these requests have estimated tokens, because their answers did not report them")
