"""Makes the channels of the settings."""

from __future__ import annotations

import msgspec

from toolcaddie.app.settings import ChannelSettings, PartSettings, Settings, channel_settings_of
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.channels.channels import Channels
from toolcaddie.doors.channels.station import Station
from toolcaddie.parts import Parts
from toolcaddie.ports import BotTalk, Store
from toolcaddie.registry import Registry
from toolcaddie.util.suggest import did_you_mean

_SHARED = {"telegram": "token", "whatsapp": "phone_number_id", "webhook": "secret"}
"""Settings that recognise the deliveries of the shipped channels."""


def channels_of(
    settings: Settings, talk: BotTalk, *, store: Store, parts: Parts, registry: Registry | None = None
) -> Channels | None:
    """Returns the channels of the settings, not opened yet; None: they have none. `talk` answers the messages.

    Raises `ConfigError` for a mistake in the settings, and for a secret that is not set.
    """
    if not settings.channel:
        return None
    return Channels(stations_of(settings, parts, registry or Registry()), talk, store, clock=parts.clock)


def stations_of(settings: Settings, parts: Parts, registry: Registry) -> list[Station]:
    """Returns a station for each `[[channel]]`. Raises `ConfigError` if two of them would accept the same deliveries: whoever may
    write to one bot could then write to the other."""
    stations = [_station(part, settings, parts, registry) for part in settings.channel]
    names: dict[tuple[str, str], str] = {}
    for station in stations:
        accepts = getattr(station.service, "accepts", "")  # channels of other packages need not have it
        first = names.setdefault((station.type, accepts), station.name) if accepts else station.name
        if first != station.name:
            raise ConfigError(
                f"the channels {first!r} and {station.name!r} have the same {_SHARED.get(station.type, 'secret')}, so both would "
                "accept the same messages; give each its own"
            )
    return stations


def _station(part: PartSettings, settings: Settings, parts: Parts, registry: Registry) -> Station:
    own, common = channel_settings_of(part.config)
    try:
        ours = msgspec.convert(common, ChannelSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"channel {part.type!r}: {error}") from error
    bot = ours.bot or settings.default_bot
    if bot is None:
        raise ConfigError(
            f'channel {ours.name!r}: no bot answers here; write bot = "NAME", the name of a table [bots.NAME]'
        )
    if bot not in settings.bots:
        there = did_you_mean(bot, sorted(settings.bots)) if settings.bots else f"add a table [bots.{bot}]"
        raise ConfigError(f"channel {ours.name!r}: there is no bot {bot!r}; {there}")
    return Station(
        settings=msgspec.structs.replace(ours, bot=bot),
        type=part.type,
        service=registry.make("channel", part.type, own, parts),
        language=settings.bots[bot].language,
    )
