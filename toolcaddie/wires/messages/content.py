"""Conversion of content blocks (texts, images, documents) between the Messages API and our types, in both directions.

`where` is the path of a message or block in the request, for error messages.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core import content
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import JsonObject

Block = dict[str, Any]

MESSAGES = "messages"
"""Name of this wire, on blocks that came over it and in the author of messages that a caller wrote for it."""
TEXT = "text"
_PDF = "application/pdf"
_OWN_PARTS = frozenset({"image", "document", "search_result"})
"""Types of this API's content blocks that a caller may also use in a request in another API's format."""
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


# ---------------------------------------------------------------- for a provider


def write_blocks(message: Message, where: str, *, media: bool = False) -> list[Block]:
    """Returns a message's content as blocks of the API, without blank texts. `media`: content other than
    text is allowed. In a tool's result, a line of text replaces content for which the API has no block."""
    if message.content is None:
        return []
    if isinstance(message.content, str):
        return [text_block(message.content)] if speaks(message.content) else []
    blocks = []
    for place, one in enumerate(message.content):
        block = _block(one, f"{where}.content[{place}]", media=media, result=message.role == "tool")
        if block["type"] != TEXT or speaks(block["text"]):
            blocks.append(block)
    return blocks


def _block(block: content.Block, where: str, *, media: bool, result: bool) -> Block:
    try:
        written = _plain_block(block, where, media=media)
    except RequestError:
        if not result or isinstance(block, content.Other):
            raise
        written = text_block(content.placeholder(block))
    return _with_own_fields(block, written)


def _plain_block(block: content.Block, where: str, *, media: bool) -> Block:
    match block:
        case content.Text() | content.Refusal():
            return text_block(block.text)
        case content.Image() if media:
            return _image(block, where)
        case content.Resource() if media:
            return _file(block, where)
        case content.Other(part=part) if media and (block.wire == MESSAGES or content.block_kind(block) in _OWN_PARTS):
            return dict(part)
        case content.Other(problem=problem) if problem:
            raise refused(f"{where}.{problem}")
        case _:
            raise refused(
                f"{where}: content of type {content.block_kind(block)!r} cannot be sent to this provider here"
            )


def speaks(text: Any) -> bool:
    """Returns True if a value is a text that is not blank."""
    return isinstance(text, str) and bool(text) and not text.isspace()


def text_block(text: str) -> Block:
    return {"type": TEXT, "text": text}


def _image(block: content.Image, where: str) -> Block:
    if block.file_id:
        return {"type": "image", "source": {"type": "file", "file_id": block.file_id}}
    if block.url.startswith(("https://", "http://")):
        return {"type": "image", "source": {"type": "url", "url": block.url}}
    if not block.data:
        raise refused(f"{where}: an image must be an https address or a data URL in base64")
    kind = _kind(block.mime_type)
    if kind not in _IMAGES:
        raise refused(f"{where}: an image of type {kind!r} cannot be sent; {', '.join(sorted(_IMAGES))} can")
    return _base64("image", kind, block.data)


def _file(block: content.Resource, where: str) -> Block:
    written = _document_of(block, where)
    if written["type"] == "document" and (title := block.title or block.name):
        written["title"] = title
    return written


def _document_of(block: content.Resource, where: str) -> Block:
    if block.file_id:
        return {"type": "document", "source": {"type": "file", "file_id": block.file_id}}
    if block.text is not None:
        return _text_document(block.text)
    if block.data:
        return _document(_kind(block.mime_type), block.data, where)
    if block.uri.startswith(("https://", "http://")) and _kind(block.mime_type) == _PDF:
        return {"type": "document", "source": {"type": "url", "url": block.uri}}
    raise refused(f"{where}: a file must be a data URL in base64, or the https address of a PDF")


def _kind(mime_type: str) -> str:
    return mime_type.partition(";")[0].lower()


def _document(kind: str, data: str, where: str) -> Block:
    if kind in _IMAGES:
        return _base64("image", kind, data)
    if kind == _PDF:
        return _base64("document", kind, data)
    if not kind.startswith("text/"):
        raise refused(f"{where}: a file of type {kind!r} cannot be sent; PDF, text and images can")
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeError) as error:
        raise refused(f"{where}: what it holds is not base64 of UTF-8 text: {error}") from error
    return _text_document(text)


def _text_document(text: str) -> Block:
    return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}


def _base64(kind: str, media_type: str, data: str) -> Block:
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}


def _with_own_fields(block: content.Block, written: Block) -> Block:
    """Returns `written`, the API's form of `block`, with further fields of `block`: all of them if it came over this wire, else
    only its mark for the prompt cache."""
    extra = block.extra or {}
    if block.wire == MESSAGES:
        return {**extra, **written}
    if extra.get("cache_control") is not None:
        written["cache_control"] = extra["cache_control"]
    return written


def refused(why: str) -> RequestError:
    return RequestError(why, param="messages")


# ---------------------------------------------------------------- at a door


def read_blocks(blocks: Sequence[JsonObject]) -> tuple[content.Block, ...]:
    return tuple(map(_read_block, blocks))


def _read_block(block: JsonObject) -> content.Block:
    """Returns one of our blocks. A block of an unknown type, or with an unknown source, is kept whole."""
    source = block.get("source")
    match block.get("type"):
        case "text" if isinstance(text := block.get("text"), str):
            return content.Text(text=text, wire=MESSAGES, extra=_other_fields(block, "text"))
        case "image" if isinstance(source, Mapping) and (fields := _media_of(source)) is not None:
            return content.Image(**fields, wire=MESSAGES, extra=_other_fields(block, "source"))
        case "document" if isinstance(source, Mapping) and (fields := _document_fields(source)) is not None:
            title = block.get("title")
            titled: dict[str, Any] = {"title": title} if title and isinstance(title, str) else {}
            return content.Resource(**fields, **titled, wire=MESSAGES, extra=_other_fields(block, "source", *titled))
        case _:
            return content.Other(wire=MESSAGES, part=block)


def _media_of(source: Mapping[str, Any]) -> dict[str, Any] | None:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data), **rest} if not rest:
            return {"mime_type": kind, "data": data}
        case {"type": "url", "url": str(url), **rest} if not rest:
            return {"url": url}
        case {"type": "file", "file_id": str(file_id), **rest} if not rest:
            return {"file_id": file_id}
        case _:
            return None


def _document_fields(source: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the fields of a `Resource` for a document's source; in this API a document by URL is always a PDF. None if the
    source is of another type or has further fields: the block is then kept whole, so that nothing is lost."""
    match source:
        case {"type": "text", "media_type": "text/plain", "data": str(text), **rest} if not rest:
            return {"mime_type": "text/plain", "text": text}
        case {"type": "url", "url": str(url), **rest} if not rest:
            return {"mime_type": _PDF, "uri": url}
        case _:
            return _media_of(source)


def _other_fields(block: JsonObject, *names: str) -> JsonObject | None:
    """Returns the fields of a block except the `names` and nulls."""
    extra = {name: value for name, value in block.items() if value is not None and name not in ("type", *names)}
    return extra or None
