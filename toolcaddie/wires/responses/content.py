"""Content parts of the Responses API as blocks, and back. A block is a piece of content in our types (`core.content`).

A part that came over this wire (the format of this API) is sent over it unchanged: fields unknown here are kept in a block's
`extra`, and a part of an unknown kind, or one that is malformed, is kept whole.
"""

from __future__ import annotations

from typing import Any

from toolcaddie.core.content import (
    Block,
    Content,
    Image,
    Other,
    Refusal,
    Resource,
    Text,
    block_kind,
    data_url,
    placeholder,
    split_data_url,
)
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import JsonObject

RESPONSES = "responses"

_INPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})
_NESTING = frozenset({"image_url", "file"})
"""Fields of chat completions' parts that contain the other fields."""
_FILE_FIELDS = frozenset({"filename", "file_data", "file_id", "file_url"})


# ---------------------------------------------------------------- in


def read_content(content: Any, where: str) -> Content:
    """Returns the content at `where`: text, or its parts as blocks. Raises `RequestError`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise RequestError(f"'{where}' must be a string or an array of parts", param=where)
    return tuple(map(_read_part, content))


def _read_part(part: JsonObject) -> Block:
    match part:
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return Text(text=text, wire=RESPONSES, extra=_other_fields(part, "text"))
        case {"type": "refusal", "refusal": str(text)}:
            return Refusal(text=text, wire=RESPONSES, extra=_other_fields(part, "refusal"))
        case {"type": "input_image"}:
            return _read_image(part)
        case {"type": "input_file"}:
            return _read_file(part)
    return Other(wire=RESPONSES, part=part)


def _read_image(part: JsonObject) -> Block:
    texts = {name: part[name] for name in ("image_url", "file_id", "detail") if _is_text(part.get(name))}
    if not texts.keys() & {"image_url", "file_id"}:
        return Other(wire=RESPONSES, part=part, problem="image_url: must be a string")
    url = texts.get("image_url", "")
    media = split_data_url(url)
    return Image(
        data=media[1] if media else "",
        mime_type=media[0] if media else "",
        url="" if media else url,
        file_id=texts.get("file_id", ""),
        detail=texts.get("detail", ""),
        wire=RESPONSES,
        extra=_other_fields(part, *texts),
    )


def _read_file(part: JsonObject) -> Block:
    texts = {name: part[name] for name in _FILE_FIELDS if _is_text(part.get(name))}
    if not texts.keys() - {"filename"}:
        return Other(
            wire=RESPONSES, part=part, problem="file_data: one of file_data, file_id and file_url must be a string"
        )
    media = split_data_url(texts.get("file_data", ""))
    if "file_data" in texts and media is None:
        return Other(wire=RESPONSES, part=part, problem="file_data: must be a data URL")
    return Resource(
        uri=texts.get("file_url", ""),
        mime_type=media[0] if media else "",
        data=media[1] if media else "",
        file_id=texts.get("file_id", ""),
        name=texts.get("filename", ""),
        wire=RESPONSES,
        extra=_other_fields(part, *texts),
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _other_fields(part: JsonObject, *names: str) -> JsonObject | None:
    return {name: value for name, value in part.items() if name != "type" and name not in names} or None


# ---------------------------------------------------------------- out


def write_content(message: Message) -> str | list[dict[str, Any]]:
    """Returns the content of a message. Raises `RequestError` for a block that this API cannot express there."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    return [_part(block, message) for block in message.content]


def write_words(message: Message) -> str:
    """Returns the text of an answer that another model wrote; nothing else of such an answer can be sent."""
    blocks = message.content if isinstance(message.content, tuple) else ()
    for block in blocks:
        if not isinstance(block, Text | Refusal):
            raise _no_part(block, message)
    texts = [message.text, *(block.text for block in blocks if isinstance(block, Refusal))]
    if message.extra and isinstance(message.extra.get("refusal"), str):
        texts.append(message.extra["refusal"])
    return "\n".join(filter(None, texts))


def _part(block: Block, message: Message) -> dict[str, Any]:
    part = _part_of(block)
    if part is None and message.role == "tool" and not isinstance(block, Other):
        part = {"type": "input_text", "text": placeholder(block)}
    if part is None:
        raise _no_part(block, message)
    return {**part, **_extra_fields(block)}


def _part_of(block: Block) -> dict[str, Any] | None:
    """Returns the part for a block; None: this API has none."""
    match block:
        case Text():
            return {"type": "input_text", "text": block.text}
        case Image(data=data, url=url, file_id=file_id) if data or url or file_id:
            address = data_url(block.mime_type, data) if data else url
            where = {"image_url": address} if address else {"file_id": file_id}
            return {"type": "input_image", **where, "detail": block.detail or "auto"}
        case Resource():
            return _file(block)
        case Other(part=part) if block_kind(block) in _INPUT_PARTS:
            return dict(part)
        case _:
            return None


def _file(block: Resource) -> dict[str, Any] | None:
    if block.text is not None:
        return {"type": "input_text", "text": block.text}
    fields = {
        "filename": block.name,
        "file_data": data_url(block.mime_type, block.data) if block.data else "",
        "file_id": block.file_id,
        "file_url": block.uri if block.uri.startswith(("https://", "http://")) and not block.data else "",
    }
    filled = {name: value for name, value in fields.items() if value}
    return {"type": "input_file", **filled} if filled.keys() - {"filename"} else None


def _extra_fields(block: Block) -> JsonObject:
    """Returns the extra fields of a part that came by this wire, or by chat completions, which has many fields of the same
    names."""
    extra = block.extra if block.wire in ("chat", "responses") else None
    return {name: value for name, value in (extra or {}).items() if name not in _NESTING}


def _no_part(block: Block, message: Message) -> RequestError:
    return RequestError(
        f"the Responses API does not accept content of type {block_kind(block)!r} in a message with role {message.role!r}",
        param="messages",
    )
