"""Reads the webhooks of WhatsApp's Cloud API: messages of people; reports about sent messages are skipped."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from toolcaddie.core.channels import Incoming

_LONGEST_TEXT = 16_384


class _Text(Struct, frozen=True):
    body: str = ""


class _Media(Struct, frozen=True):
    id: str
    caption: str = ""


class _Reply(Struct, frozen=True):
    id: str


class _Interactive(Struct, frozen=True):
    button_reply: _Reply | None = None


class _Context(Struct, frozen=True):
    forwarded: bool = False
    frequently_forwarded: bool = False


class _Message(Struct, frozen=True):
    id: str
    sender: str = field(name="from")
    text: _Text = _Text()
    image: _Media | None = None
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
    messages: tuple[_Message, ...] = ()


class _Change(Struct, frozen=True):
    field: str
    value: _Value


class _Entry(Struct, frozen=True):
    changes: tuple[_Change, ...] = ()


class Notification(Struct, frozen=True):
    """The body of a webhook, as far as it is read."""

    object: str
    entry: tuple[_Entry, ...] = ()


def messages_of(notification: Notification, phone_number_id: str) -> Iterator[Incoming]:
    """Yields the messages to a phone number, in their order."""
    for entry in notification.entry:
        for change in entry.changes:
            value = change.value
            if change.field != "messages" or value.metadata is None:
                continue
            if value.metadata.phone_number_id == phone_number_id:
                names = {contact.wa_id: contact.profile.name for contact in value.contacts}
                for message in value.messages:
                    yield _incoming(message, names.get(message.sender, ""))


def _incoming(message: _Message, name: str) -> Incoming:
    pressed, context = message.interactive.button_reply, message.context
    caption = "" if message.image is None else message.image.caption
    return Incoming(
        key=message.id,
        chat=message.sender,
        person=message.sender,
        name=name,
        text=(pressed.id if pressed is not None else message.text.body or caption)[:_LONGEST_TEXT],
        pictures=() if message.image is None else (message.image.id,),
        handle=message.id,
        forwarded=context is not None and (context.forwarded or context.frequently_forwarded),
    )
