"""Fetches what people attach to messages: pictures, and files that are short texts."""

from __future__ import annotations

from msgspec import Struct

from toolcaddie.core.channels import AttachedFile, Incoming
from toolcaddie.core.content import Image
from toolcaddie.core.errors import OutboundError
from toolcaddie.doors.channels import pictures, texts
from toolcaddie.doors.channels.station import Station
from toolcaddie.ports.channels import FileChannel
from toolcaddie.util.log import Logger
from toolcaddie.util.text import visible_line

log = Logger(__name__)

_LONGEST_NAME = 128


class Attachments(Struct, frozen=True, kw_only=True):
    """The attachments of a message."""

    pictures: tuple[Image, ...]
    texts: tuple[str, ...]
    """The text files. The first line of each is its name."""
    is_complete: bool
    """False: something else is attached, or could not be read."""


async def attachments_of(station: Station, message: Incoming) -> Attachments:
    """Returns what is attached to a message. Raises `ProviderError` if the service fails."""
    images: list[Image] = []
    files: list[str] = []
    is_complete = not message.unread
    all_attached: tuple[str | AttachedFile, ...] = (*message.pictures, *message.files)
    for attached in all_attached:
        try:
            if isinstance(attached, str):
                images.append(await station.service.picture(attached))
            elif pictures.is_picture(attached):
                images.append(await station.service.picture(attached.reference))
            else:
                files.append(await _text_file(station, attached))
        except OutboundError as error:
            log.warning("channel_attachment_not_read", channel=station.name, error=str(error))
            is_complete = False
    return Attachments(pictures=tuple(images), texts=tuple(files), is_complete=is_complete)


def unreadable(station: Station, message: Incoming) -> str:
    """Returns what a person is told of whose message nothing can be read."""
    sentences = station.sentences
    kilobytes, megabytes = texts.MOST_BYTES // 1024, pictures.MOST_BYTES // 1024**2
    if message.pictures or any(pictures.is_picture(file) for file in message.files):
        return sentences.picture_unreadable.format(megabytes=megabytes)
    if message.files:
        return sentences.file_unreadable.format(kilobytes=kilobytes)
    if isinstance(station.service, FileChannel):
        return sentences.unreadable.format(kilobytes=kilobytes)
    return sentences.unreadable_without_files


async def _text_file(station: Station, file: AttachedFile) -> str:
    """Returns the name and the text of a file. Raises `OutboundError` if it is no text, or too long."""
    if not isinstance(station.service, FileChannel) or not texts.is_text(file):
        raise OutboundError(f"files of the type {visible_line(file.mime_type[:_LONGEST_NAME])!r} are not read here")
    data = await station.service.file(file.reference, texts.MOST_BYTES)
    return f"{visible_line(file.name[:_LONGEST_NAME])}\n{texts.text_of(data)}"
