"""The settings that channels of every type have, in addition to those of their type.

[[channel]]
name = "support"
type = "telegram"
token_env = "TELEGRAM_TOKEN"     # a setting of the type
bot = "assistant"
allow = ["123456"]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

PersonId = Annotated[str, Meta(min_length=1, max_length=128)]

ChannelName = Annotated[
    str,
    Meta(
        pattern=r"^(?!(gateway|mcp|console|chat|run|call|terminal|session)\Z)[a-z][a-z0-9_-]{0,31}\Z",
        description="of up to 32 small letters, digits, - and _, beginning with a letter, and not gateway, mcp, console, "
        "chat, run, call, terminal or session, because requests that come another way have these names",
    ),
]


class ChannelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may talk through a channel, and to which bot."""

    name: ChannelName
    """Name of the channel, in addresses, records and the path of its webhook (`/channels/NAME`)."""
    bot: str | None = None
    """The bot that answers; None: the default bot."""
    tenant: str = "default"
    """Tenant of the people who write."""
    role: str | None = None
    """Role of the people who write."""
    allow: tuple[PersonId, ...] = ()
    """Ids of the people who may talk to the bot; "*": everybody who can write to it."""
    pairing: bool = False
    """True: a stranger gets a code, with which an operator can allow the person."""
    groups: tuple[PersonId, ...] = ()
    """Ids of the groups whose members may talk to the bot there."""
    approvers: tuple[PersonId, ...] = ()
    """Ids of the chats in which people are asked about calls that need approval."""
    waiting: Annotated[int, Meta(ge=1, le=10_000)] = 20
    """The largest number of messages of one chat that wait for an answer."""
    chats: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """The largest number of messages that are answered at the same time."""


def channel_settings_of(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits the settings of a channel into those of its factory and those of `ChannelSettings`."""
    ours = {key: value for key, value in config.items() if key in ChannelSettings.__struct_fields__}
    return {key: value for key, value in config.items() if key not in ours}, ours
