"""Reads Telegram's updates: the messages of people, their changes, and the buttons they press; nothing else concerns a bot."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from toolcaddie.core.channels import AttachedFile, Incoming

ALLOWED_UPDATES = ["message", "edited_message", "callback_query"]
"""Kinds of updates that Telegram is asked for."""

_LONGEST_TEXT = 16_384
_GROUPS = ("group", "supergroup")
_MENTIONS = ("mention", "text_mention", "bot_command")


class User(Struct, frozen=True):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""


class _Chat(Struct, frozen=True):
    id: int
    type: str


class _Entity(Struct, frozen=True):
    type: str
    offset: int
    length: int
    user: User | None = None


class _Photo(Struct, frozen=True):
    file_id: str
    file_size: int = 0


class _Document(Struct, frozen=True):
    file_id: str
    file_name: str = ""
    mime_type: str = ""


class _Original(Struct, frozen=True):
    sender: User | None = field(name="from", default=None)


class _Forward(Struct, frozen=True):
    """The origin of a forwarded message. It is not read: whoever it was, the person who forwards has not written it."""


class _Message(Struct, frozen=True):
    message_id: int
    chat: _Chat
    sender: User | None = field(name="from", default=None)
    text: str = ""
    caption: str = ""
    entities: tuple[_Entity, ...] = ()
    caption_entities: tuple[_Entity, ...] = ()
    photo: tuple[_Photo, ...] = ()
    document: _Document | None = None
    voice: Any = None
    audio: Any = None
    video: Any = None
    video_note: Any = None
    animation: Any = None
    paid_media: Any = None
    pinned_message: Any = None
    message_auto_delete_timer_changed: Any = None
    write_access_allowed: Any = None
    chat_background_set: Any = None
    reply_to_message: _Original | None = None
    forward_origin: _Forward | None = None
    via_bot: User | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    migrate_to_chat_id: int | None = None

    @property
    def is_unread(self) -> bool:
        """True if the message has a recording or a video, which may have a caption."""
        media = (self.voice, self.audio, self.video, self.video_note, self.animation, self.paid_media)
        return any(each is not None for each in media)

    @property
    def is_note(self) -> bool:
        """True if Telegram wrote the message, as a note of what was done in the chat."""
        notes = (
            self.pinned_message,
            self.message_auto_delete_timer_changed,
            self.write_access_allowed,
            self.chat_background_set,
        )
        return any(each is not None for each in notes)


class _Callback(Struct, frozen=True):
    id: str
    sender: User = field(name="from")
    message: _Message | None = None
    data: str = ""


class Update(Struct, frozen=True):
    """An update, as far as it is read."""

    update_id: int
    message: _Message | None = None
    edited_message: _Message | None = None
    callback_query: _Callback | None = None

    @property
    def moved(self) -> tuple[str, str] | None:
        """The old and the new id of a group that has got another id; None: the update is something else."""
        message = self.message
        if message is None or message.migrate_to_chat_id is None:
            return None
        return str(message.chat.id), str(message.migrate_to_chat_id)


def incoming_of(update: Update, me: User, *, most_bytes: int) -> Incoming | None:
    """Returns the message of an update; None: there is none for this bot. `me`: the bot. `most_bytes`: size above which the next
    smaller version of a photo is taken."""
    if update.callback_query is not None:
        return _pressed(update.update_id, update.callback_query)
    message = update.message or update.edited_message
    if message is None or message.sender is None or message.sender.is_bot or message.chat.type == "channel":
        return None
    edited = update.message is None
    # A place that is shared while it moves is changed all the time, without a text.
    if message.is_note or (edited and not (message.text or message.caption)):
        return None
    text, entities = (message.text, message.entities) if message.text else (message.caption, message.caption_entities)
    mentions = [(_piece(text, each), each) for each in entities if each.type in _MENTIONS]
    own = f"@{me.username}".lower()
    if any(each.type == "bot_command" and each.offset == 0 and _is_for_another(piece, own) for piece, each in mentions):
        return None
    group = message.chat.type in _GROUPS
    replied = message.reply_to_message.sender if message.reply_to_message is not None else None
    addressed = (replied is not None and replied.id == me.id) or any(
        (each.user is not None and each.user.id == me.id) or piece.lower() == own or piece.lower().endswith(own)
        for piece, each in mentions
    )
    fitting = [photo for photo in message.photo if photo.file_size <= most_bytes] or list(message.photo[:1])
    return Incoming(
        # However often a message is changed, this is answered once.
        key=f"edited:{message.chat.id}:{message.message_id}" if edited else str(update.update_id),
        chat=str(message.chat.id),
        person=str(message.sender.id),
        name=f"{message.sender.first_name} {message.sender.last_name}".strip() or message.sender.username,
        text=_without_mention(text, own)[:_LONGEST_TEXT],
        pictures=(fitting[-1].file_id,) if fitting else (),
        files=() if message.document is None or message.is_unread else (_file(message.document),),
        unread=message.is_unread,
        edited=edited,
        group=group,
        addressed=addressed,
        # An inline bot, which the person only chose, has written the text of a message that was sent with it.
        forwarded=message.forward_origin is not None or message.via_bot is not None,
        handle=_handle(message),
    )


def _pressed(update_id: int, callback: _Callback) -> Incoming | None:
    """Returns the command of a button."""
    message = callback.message
    if message is None or not callback.data:
        return None
    return Incoming(
        key=str(update_id),
        chat=str(message.chat.id),
        person=str(callback.sender.id),
        name=f"{callback.sender.first_name} {callback.sender.last_name}".strip(),
        text=callback.data,
        group=message.chat.type in _GROUPS,
        addressed=True,
        handle=_handle(message),
        button=callback.id,
    )


def _file(document: _Document) -> AttachedFile:
    return AttachedFile(reference=document.file_id, name=document.file_name, mime_type=document.mime_type)


def _handle(message: _Message) -> str:
    """Returns the id of the message, and that of its topic in a group with topics."""
    topic = f"/{message.message_thread_id}" if message.is_topic_message and message.message_thread_id else ""
    return f"{message.message_id}{topic}"


def _piece(text: str, entity: _Entity) -> str:
    """Returns the part of a text that an entity marks. Its place is counted in UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")


def _is_for_another(command: str, own: str) -> bool:
    name = command.partition("@")[2].lower()
    return bool(name) and f"@{name}" != own


def _without_mention(text: str, own: str) -> str:
    """Returns a text without the bot's name at its beginning."""
    stripped = text.lstrip()
    rest = stripped[len(own) :]
    begins = stripped.lower().startswith(own) and not (rest[:1].isalnum() or rest[:1] == "_")
    return rest.lstrip(" ,:") if begins else text
