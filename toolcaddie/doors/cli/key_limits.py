"""The options of `toolcaddie keys` for the limits of a key, and `toolcaddie usage`: what keys have used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RequestError
from toolcaddie.core.key_limits import BILLION, LIMIT_NAMES, KeyLimits, KeyUsage
from toolcaddie.core.storage import ApiKey
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common

NO_LIMIT, DEFAULT = "none", "default"


class _Limit(click.ParamType[Any]):
    """A number, or one of the words `none` (no limit, whatever the settings say) and `default` (the limit of the settings)."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in (NO_LIMIT, DEFAULT):
            return value
        try:
            number: float = float(value) if param is not None and "dollars" in str(param.name) else int(value)
        except ValueError:
            self.fail(f"{value!r} is no number; write a number, none or default", param, ctx)
        if not 0 < number < float("inf"):
            self.fail(f"{value!r} must be more than 0; write none for no limit", param, ctx)
        return number


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an option for each limit."""
    for name in reversed(LIMIT_NAMES):
        counted, _, span = name.partition("_per_")
        text = f"{counted.capitalize()} per {span}, none, or default."
        command = click.option(f"--{name.replace('_', '-')}", name, type=_Limit(), metavar="N", help=text)(command)
    return command


def changed_limits(before: Mapping[str, float | None], options: Mapping[str, Any]) -> Mapping[str, float | None]:
    """Returns the limits of a key with those of the options. An option that was not given changes nothing."""
    limits = dict(before)
    for name in LIMIT_NAMES:
        match options[name]:
            case None:
                pass
            case "default":
                limits.pop(name, None)
            case "none":
                limits[name] = None
            case number:
                limits[name] = number
    return limits


def limits_text(limits: KeyLimits) -> str:
    """Returns limits in words: `60 requests per minute, 5 dollars per day`."""
    values = [(name, getattr(limits, name)) for name in LIMIT_NAMES]
    return ", ".join(f"{value:,.15g} {name.replace('_', ' ')}" for name, value in values if value is not None)


def limits_json(key: ApiKey, settings: Settings) -> Mapping[str, Any]:
    """Returns a key's own limits, and those that hold for it."""
    return {"own": key.limits, "in_force": msgspec.to_builtins(settings.key_limits.with_own(key.limits))}


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
    today = datetime.now(UTC).date()
    async with existing_or_empty(settings) as database:
        names = {key.id: key.name for key in await database.keys.list()}
        key_id = None if name is None else next((key for key, its in names.items() if name in (key, its)), "")
        if key_id == "":
            raise RequestError(f"there is no key {name!r}; `toolcaddie keys list` shows them", code="key_not_found")
        first = (today - timedelta(days=days - 1)).isoformat()
        return await database.meter.usage(first=first, last=today.isoformat(), key_id=key_id), names


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
            _dollars(row),
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


def _dollars(row: KeyUsage) -> str:
    if row.unpriced and not row.money:
        return "unknown"
    return f"{row.money / BILLION:,.4f}"
