"""Conversion of our content blocks to the parts of Gemini's messages, and of pictures in Gemini's answers to blocks."""

from __future__ import annotations

from toolcaddie.core.content import (
    Audio,
    Block,
    Image,
    Other,
    Refusal,
    Resource,
    Text,
    Video,
    block_kind,
    placeholder,
)
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import JsonObject

Part = JsonObject

_TYPES = {
    **{name: f"image/{name}" for name in ("png", "jpeg", "webp", "gif", "heic", "heif")},
    **{name: f"video/{name}" for name in ("mp4", "mpeg", "webm")},
    **{name: f"audio/{name}" for name in ("mp3", "wav", "ogg", "flac", "aac")},
    "jpg": "image/jpeg",
    "mov": "video/mov",
    "pdf": "application/pdf",
}
"""MIME types by the extension of an address. For an address without one, Gemini determines the type itself or refuses."""


def write_parts(message: Message) -> list[Part]:
    """Returns the parts of a message's content, without empty texts."""
    if message.content is None or isinstance(message.content, str):
        return [{"text": message.content}] if message.content else []
    return [part for part in (_part(block, message.role) for block in message.content) if part.get("text") != ""]


def _part(block: Block, role: str) -> Part:
    """Returns the part for a block. If Gemini has no such part, a line of text replaces the block in a tool's
    result; in other messages `RequestError` is raised."""
    try:
        return _plain_part(block)
    except RequestError:
        if role != "tool" or isinstance(block, Other):
            raise
        return {"text": placeholder(block)}


def _plain_part(block: Block) -> Part:
    match block:
        case Text() | Refusal():
            return {"text": block.text}
        case Image() | Audio() | Video():
            return _media(block.mime_type, block.data) if block.data else _address_part(block.url, block.mime_type)
        case Resource(text=str(text)):
            return {"text": text}
        case Resource(data=data) if data:
            return _media(block.mime_type, data)
        case Resource(uri=uri) if uri:
            return _address_part(uri, block.mime_type)
        case Resource(file_id=file_id) if file_id.startswith("https://"):  # a file in Gemini's own store
            return _address_part(file_id, block.mime_type)
        case Other(wire="gemini"):
            return block.part
        case _:
            raise RequestError(
                f"Gemini cannot be sent this content part of type {block_kind(block)!r}", param="messages"
            )


def _media(mime_type: str, data: str) -> Part:
    return {"inlineData": {"mimeType": mime_type.partition(";")[0], "data": data}}


def _address_part(address: str, mime_type: str = "") -> Part:
    """Returns the part for an address, whose content the provider fetches."""
    if address.startswith("data:"):
        raise RequestError("the data: URL of a content part needs a MIME type and ;base64", param="messages")
    if "://" not in address:
        raise RequestError("a content part has neither a data: URL nor an address", param="messages")
    mime = mime_type or _TYPES.get(address.partition("?")[0].rpartition(".")[2].lower())
    return {"fileData": {"mimeType": mime, "fileUri": address} if mime else {"fileUri": address}}


# ---------------------------------------------------------------- from a provider


def read_picture(part: JsonObject) -> Image | None:
    blob = part.get("inlineData")
    mime = blob.get("mimeType") if isinstance(blob, dict) else None
    if not isinstance(blob, dict) or not str(mime).startswith("image/") or part.get("thought"):
        return None
    return Image(data=str(blob.get("data", "")), mime_type=str(mime))
