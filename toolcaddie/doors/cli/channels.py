"""`toolcaddie channels`: lists the channels, lets people talk to a bot, and checks the settings of a channel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from toolcaddie.app.build import existing_or_empty, opened
from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.settings import ChannelSettings, Settings, channel_settings_of
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.doors.channels.inbox import PATH
from toolcaddie.doors.channels.people import Pairings
from toolcaddie.doors.channels.setup import stations_of
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import local_time
from toolcaddie.registry import Registry
from toolcaddie.util.suggest import did_you_mean

T = TypeVar("T")

_NO_CHANNELS = (
    'there are no channels; add a table [[channel]] to toolcaddie.toml, with type = "telegram", "whatsapp" or "webhook"'
)


@click.group(
    name="channels",
    epilog="\b\nExamples:\n"
    "  toolcaddie channels list\n"
    "  toolcaddie channels pair K7WQ2MXB\n"
    "  toolcaddie channels unpair support 123456\n"
    "  toolcaddie channels test support",
)
def command() -> None:
    """List the channels, let people talk to a bot, and check a channel.

    Channels are tables [[channel]] of the settings; `toolcaddie serve` runs them.
    """


@command.command("list", epilog="\b\nExample:\n  toolcaddie channels list --json")
@database_option
@json_option
@click.pass_obj
def list_(common: Common, database_url: str | None, as_json: bool) -> None:
    """List the channels, and who may talk to their bots."""
    settings = settings_of(common, database_url=database_url)
    channels = [(part.type, _common(part.config)) for part in settings.channel]

    async def with_people(pairings: Pairings) -> list[dict[str, Any]]:
        return [
            {
                "name": ours.name,
                "type": kind,
                "bot": ours.bot or settings.default_bot,
                "webhook": f"{PATH}{ours.name}",
                "allow": ours.allow,
                "groups": ours.groups,
                "pairing": ours.pairing,
                "paired": [msgspec.to_builtins(each) for each in await pairings.all(ours.name)],
            }
            for kind, ours in channels
        ]

    listed = _with_pairings(settings, with_people)
    if as_json:
        print_json({"channels": listed})
    elif not listed:
        note(_NO_CHANNELS)
    else:
        rows = [
            (
                each["name"],
                each["type"],
                each["bot"],
                ", ".join([*each["allow"], *(f"{pair['person']} ({pair['name']})" for pair in each["paired"])])
                or "nobody",
                ", ".join(each["groups"]),
                "on" if each["pairing"] else "off",
            )
            for each in listed
        ]
        print_table(("name", "type", "bot", "people", "groups", "pairing"), rows, spare=("groups", "people"))


@command.command("pair", epilog="\b\nExample:\n  toolcaddie channels pair K7WQ2MXB")
@click.argument("code")
@database_option
@json_option
@click.pass_obj
def pair(common: Common, code: str, database_url: str | None, as_json: bool) -> None:
    """Let the person who got the pairing CODE talk to the bot."""
    settings = settings_of(common, database_url=database_url)
    pairing = _with_pairings(settings, lambda pairings: pairings.accept(code))
    if as_json:
        print_json(pairing)
    else:
        given = local_time(pairing.at)
        echo(
            f"{pairing.person} ({pairing.name}) may talk to the bot of {pairing.channel}; the code was given out {given}"
        )


@command.command("unpair", epilog="\b\nExample:\n  toolcaddie channels unpair support 123456")
@click.argument("name")
@click.argument("person")
@database_option
@json_option
@click.pass_obj
def unpair(common: Common, name: str, person: str, database_url: str | None, as_json: bool) -> None:
    """End the pairing of PERSON with the channel NAME.

    PERSON is an id that `channels list` shows.
    """
    settings = settings_of(common, database_url=database_url)
    if not _with_pairings(settings, lambda pairings: pairings.end(name, person)):
        if name not in _names(settings):
            raise _no_channel(name, settings)
        raise RequestError(f"{person[:64]!r} is not paired with {name[:32]!r}; `toolcaddie channels list` shows who is")
    if as_json:
        print_json({"channel": name, "person": person, "paired": False})
    else:
        echo(f"{person} may no longer talk to the bot of {name}")


@command.command("test", epilog="\b\nExample:\n  toolcaddie channels test support")
@click.argument("name")
@json_option
@click.pass_obj
def test(common: Common, name: str, as_json: bool) -> None:
    """Check the secrets of the channel NAME.

    The service is asked for its bot. Nothing is sent to a chat.
    """
    settings = settings_of(common)
    parts = [part for part in settings.channel if _common(part.config).name == name]
    if not parts:
        raise _no_channel(name, settings)
    one = msgspec.structs.replace(settings, channel=tuple(parts))

    async def facts() -> Any:
        (station,) = stations_of(one, host_parts(one), Registry())
        try:
            return await station.service.facts()
        finally:
            await station.service.close()

    answer = asyncio.run(facts())
    if as_json:
        print_json(answer)
    else:
        echo(f"{name}: {answer.bot}")
        for key, value in answer.details.items():
            echo(f"  {key}: {value}")


def _no_channel(name: str, settings: Settings) -> ConfigError:
    names = _names(settings)
    return ConfigError(f"there is no channel {name[:32]!r}; {did_you_mean(name, names)}" if names else _NO_CHANNELS)


def _names(settings: Settings) -> list[str]:
    return sorted(_common(part.config).name for part in settings.channel)


def _common(config: Any) -> ChannelSettings:
    return msgspec.convert(channel_settings_of(config)[1], ChannelSettings)


def _with_pairings(settings: Settings, query: Callable[[Pairings], Awaitable[T]]) -> T:
    """Opens the database, and returns the result of a query of its pairings."""

    async def answer() -> T:
        async with opened(settings) if settings.channel else existing_or_empty(settings) as database:
            return await query(Pairings(database.store, time.time))

    return asyncio.run(answer())
