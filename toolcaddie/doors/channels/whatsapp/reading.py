"""Reads the webhooks of WhatsApp's Cloud API: messages of people; reports about sent messages are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from toolcaddie.core.channels import AttachedFile, Incoming
from toolcaddie.util.log import Logger

log = Logger(__name__)

_LONGEST_TEXT = 16_384
_LONGEST_STAMP = 11

_Id = Annotated[str, Meta(pattern=r"^[!-~]{1,256}\Z")]
_NOTES = frozenset({"reaction", "revoke", "system", "request_welcome"})
"""Types of messages that nobody expects an answer to."""
_READ = frozenset({"text", "image", "document", "button", "interactive"})
_OLDEST_SECONDS = 7.5 * 86_400.0
"""Age of the oldest message that is read. WhatsApp repeats messages for seven days, and for eight they are recognised."""


class _Text(Struct, frozen=True):
    body: str = ""


class _Media(Struct, frozen=True):
    id: str
    caption: str = ""
    mime_type: str = ""
    filename: str = ""


class _QuickReply(Struct, frozen=True):
    text: str = ""


class _Edit(Struct, frozen=True):
    original_message_id: str


class _Reply(Struct, frozen=True):
    id: str


class _Interactive(Struct, frozen=True):
    button_reply: _Reply | None = None


class _Context(Struct, frozen=True):
    forwarded: bool = False
    frequently_forwarded: bool = False


class _Message(Struct, frozen=True):
    id: _Id
    sender: _Id = field(name="from")
    timestamp: str = ""
    type: str = ""
    text: _Text = _Text()
    image: _Media | None = None
    video: _Media | None = None
    document: _Media | None = None
    button: _QuickReply = _QuickReply()
    edit: _Edit | None = None
    interactive: _Interactive = _Interactive()
    context: _Context | None = None


class _Profile(Struct, frozen=True):
    name: str = ""


class _Contact(Struct, frozen=True):
    wa_id: str = ""
    profile: _Profile = _Profile()


class _Metadata(Struct, frozen=True):
    phone_number_id: str


class _Value(Struct, frozen=True):
    metadata: _Metadata | None = None
    contacts: tuple[_Contact, ...] = ()
    messages: tuple[msgspec.Raw, ...] = ()


class _Change(Struct, frozen=True):
    field: str
    value: _Value


class _Entry(Struct, frozen=True):
    changes: tuple[_Change, ...] = ()


class Notification(Struct, frozen=True):
    """The body of a webhook, as far as it is read."""

    object: str
    entry: tuple[_Entry, ...] = ()


def messages_of(notification: Notification, phone_number_id: str, *, now: float) -> Iterator[Incoming]:
    """Yields the messages to a phone number, in their order. A signature is valid for ever, so messages are omitted that are so
    old that nobody would notice if they were sent again. `now`: seconds since the epoch."""
    for entry in notification.entry:
        for change in entry.changes:
            value = change.value
            if change.field != "messages" or value.metadata is None:
                continue
            if value.metadata.phone_number_id == phone_number_id:
                names = {contact.wa_id: contact.profile.name for contact in value.contacts}
                for message in filter(None, map(_message, value.messages)):
                    if message.type in _NOTES:
                        continue
                    if now - _moment(message) > _OLDEST_SECONDS:
                        log.warning("whatsapp_message_too_old", timestamp=message.timestamp[:_LONGEST_STAMP])
                        continue
                    yield _incoming(message, names.get(message.sender, ""))


def _message(raw: msgspec.Raw) -> _Message | None:
    """Returns a message; None: it has a form that is not understood, which is logged. The others of the webhook are read."""
    try:
        return msgspec.json.decode(raw, type=_Message)
    except (msgspec.MsgspecError, RecursionError) as error:
        log.warning("whatsapp_message_not_read", error=str(error))
        return None


def _incoming(message: _Message, name: str) -> Incoming:
    pressed, context = message.interactive.button_reply, message.context
    edit, document = message.edit, message.document
    captions = (media.caption for media in (message.image, message.video, document) if media is not None)
    words = message.text.body or message.button.text or next(captions, "")
    return Incoming(
        # However often a message is changed, this is answered once.
        key=message.id if edit is None else f"edited:{edit.original_message_id}",
        chat=message.sender,
        person=message.sender,
        name=name,
        text=(words if pressed is None else pressed.id)[:_LONGEST_TEXT],
        pictures=() if message.image is None else (message.image.id,),
        files=() if document is None else (_file(document),),
        unread=message.type not in _READ,
        edited=edit is not None,
        handle=message.id,
        forwarded=context is not None and (context.forwarded or context.frequently_forwarded),
    )


def _file(document: _Media) -> AttachedFile:
    return AttachedFile(reference=document.id, name=document.filename, mime_type=document.mime_type)


def _moment(message: _Message) -> float:
    """Returns when a message was written, in seconds since the epoch; 0: it does not say so."""
    stamp = message.timestamp
    return float(stamp) if stamp.isascii() and stamp.isdecimal() and len(stamp) <= _LONGEST_STAMP else 0.0
