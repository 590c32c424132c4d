"""Values that pass between a channel (a messaging service, such as Telegram) and the door through which people talk to bots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class AttachedFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that a person attached to a message. What is said of it may be wrong."""

    reference: str
    """A reference to the file, which the channel can read."""
    name: str = ""
    mime_type: str = ""


class Incoming(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a person. Everything in it comes from outside."""

    key: str
    """The channel's id of the message. A message with the same key is the same message, delivered again."""
    chat: str
    """The channel's id of the chat."""
    person: str
    """The channel's id of the person."""
    name: str = ""
    """The name that the channel shows for the person, who chooses it."""
    text: str = ""
    pictures: tuple[str, ...] = ()
    """References to pictures, which the channel can read."""
    files: tuple[AttachedFile, ...] = ()
    unread: bool = False
    """True if the message has something else, such as a recording, a video or a place."""
    edited: bool = False
    """True if the message is a change of an earlier one."""
    group: bool = False
    """True if several people read the chat."""
    addressed: bool = False
    """True if the message mentions the bot or replies to it."""
    forwarded: bool = False
    """True if the person passes on what somebody else wrote."""
    handle: str = ""
    """The channel's own reference to the message, for an answer that replies to it."""
    button: str = ""
    """The channel's reference to a button that was pressed; `text` is then the command of the button."""


class Button(Struct, frozen=True, kw_only=True):
    """A button below a message. Pressing it is the same as sending its command."""

    label: str
    command: str


class Outgoing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that a channel sends. Its text is no longer than the channel permits."""

    chat: str
    text: str
    key: str
    """The same message always has the same key, for channels that can tell their receivers."""
    handle: str = ""
    """`Incoming.handle` of the message to which this one replies; empty: it replies to none."""
    buttons: tuple[Button, ...] = ()


class ChannelRequest(Struct, frozen=True, kw_only=True):
    """A request that the messaging service made to the webhook of a channel."""

    method: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in small letters; a header that came twice is missing."""
    body: bytes


class ChannelReply(Struct, frozen=True, kw_only=True):
    """The response to such a request."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


class ChannelFacts(Struct, frozen=True, kw_only=True):
    """The identity of a bot in a messaging service, for people who check their settings."""

    bot: str
    """The name of the bot in the service."""
    details: Mapping[str, Any] = {}
