"""Content parts of chat completions as blocks, and back. A block is a piece of content in our types (`core.content`).

A part that came over this wire (the format of this API) is sent over it unchanged: fields unknown here are kept in a block's
`extra`, and a part of an unknown kind, or one that is malformed, is kept whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcaddie.core.content import (
    BLOCKS,
    Audio,
    Block,
    Content,
    Image,
    Other,
    Refusal,
    Resource,
    Text,
    Video,
    block_kind,
    data_url,
    placeholder,
    shown_text,
    split_data_url,
)
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject

CHAT = "chat"

_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}
"""This wire's names of audio formats, by the names in MIME types where they differ."""


# ---------------------------------------------------------------- in


def read_content(content: Any) -> Content | None:
    """Returns a message's content: text, or its parts as blocks. Parts that are blocks already stay
    unchanged."""
    if content is None or isinstance(content, str):
        return content
    return tuple(part if isinstance(part, BLOCKS) else read_part(part) for part in content)


def read_part(part: JsonObject) -> Block:
    """Returns the block of one part, which is any JSON object."""
    kind = part.get("type")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        return Other(wire=CHAT, part=part)
    block = read(part)
    return Other(wire=CHAT, part=part, problem=block) if isinstance(block, str) else block


def _read_text(part: JsonObject) -> Block | str:
    text = part.get("text")
    return Text(text=text, wire=CHAT, extra=_other_fields(part)) if isinstance(text, str) else "text: must be text"


def _read_refusal(part: JsonObject) -> Block | str:
    text = part.get("refusal")
    return (
        Refusal(text=text, wire=CHAT, extra=_other_fields(part)) if isinstance(text, str) else "refusal: must be text"
    )


def _read_image(part: JsonObject) -> Block | str:
    inside = part.get("image_url")
    if isinstance(inside, str):  # the form of some clients
        return Image(**_address(inside), wire=CHAT, extra={**(_other_fields(part) or {}), "image_url": inside})
    if not isinstance(inside, Mapping) or not isinstance(inside.get("url"), str):
        return "image_url: must hold a url"
    detail = inside.get("detail")
    fields: dict[str, Any] = {"detail": detail} if detail and isinstance(detail, str) else {}
    return Image(**_address(inside["url"]), **fields, wire=CHAT, extra=_other_fields(part, "url", *fields))


def _read_video(part: JsonObject) -> Block | str:
    inside = part.get("video_url")
    if not isinstance(inside, Mapping) or not isinstance(inside.get("url"), str):
        return "video_url: must hold a url"
    return Video(**_address(inside["url"]), wire=CHAT, extra=_other_fields(part, "url"))


def _read_audio(part: JsonObject) -> Block | str:
    inside = part.get("input_audio")
    if not isinstance(inside, Mapping) or not all(isinstance(inside.get(name), str) for name in ("data", "format")):
        return "input_audio: must hold data and format"
    return Audio(
        data=inside["data"],
        mime_type=f"audio/{inside['format']}",
        wire=CHAT,
        extra=_other_fields(part, "data", "format"),
    )


def _read_file(part: JsonObject) -> Block | str:
    file = part.get("file")
    if not isinstance(file, Mapping):
        return "file: must be an object"
    texts = {name: value for name, value in file.items() if name in _FILE_FIELDS and value and isinstance(value, str)}
    if "file_data" not in texts and "file_id" not in texts:
        return "file: must hold file_data or file_id"
    media = split_data_url(texts.get("file_data", ""))
    return Resource(
        uri="" if media else texts.get("file_data", ""),
        mime_type=media[0] if media else "",
        data=media[1] if media else "",
        file_id=texts.get("file_id", ""),
        name=texts.get("filename", ""),
        wire=CHAT,
        extra=_other_fields(part, *texts),
    )


_FILE_FIELDS = frozenset({"file_data", "file_id", "filename"})
_READERS: Mapping[str, Callable[[JsonObject], Block | str]] = {
    "text": _read_text,
    "refusal": _read_refusal,
    "image_url": _read_image,
    "video_url": _read_video,
    "input_audio": _read_audio,
    "file": _read_file,
}
"""Reader for each type of part. It returns the block, or a text that says what is wrong with the part."""


def _address(url: str) -> dict[str, Any]:
    media = split_data_url(url)
    return {"url": url} if media is None else {"mime_type": media[0], "data": media[1]}


def _other_fields(part: JsonObject, *names: str) -> JsonObject | None:
    """Returns the fields of a part, and of the object inside it, except the `names`."""
    kind = part["type"]
    extra = {name: value for name, value in part.items() if name not in ("type", kind)}
    if isinstance(inside := part.get(kind), Mapping):
        nested = {name: value for name, value in inside.items() if name not in names}
        if nested:
            extra[kind] = nested
    return extra or None


# ---------------------------------------------------------------- out


def write_content(content: Content | None, *, role: str = "user") -> str | list[JsonObject] | None:
    """Returns content in the form of this wire. A tool's result can only be text, so a line of text replaces a picture;
    parts that came by this wire go out unchanged. Raises `RequestError` for content that no message can hold."""
    if content is None or isinstance(content, str):
        return content
    if role == "tool" and not any(block.wire == CHAT for block in content):
        return shown_text(content)
    return [_message_part(block, role) for block in content]


def _message_part(block: Block, role: str) -> JsonObject:
    part = write_part(block) if role != "tool" or block.wire == CHAT else {"type": "text", "text": placeholder(block)}
    if part is None:
        raise RequestError(
            f"chat completions do not accept content of type {block_kind(block)!r} in a message with role {role!r}",
            param="messages",
        )
    return part


def write_part(block: Block) -> JsonObject | None:
    """Returns the part for a block; None: this wire has no part for it."""
    part = block.part if isinstance(block, Other) and block.wire == CHAT else _PARTS[type(block)](block)
    return part if part is None or block.extra is None or block.wire != CHAT else _with_extra(part, block.extra)


def _text_part(block: Any) -> JsonObject:
    return {"type": "text", "text": block.text}


def _refusal_part(block: Any) -> JsonObject:
    return {"type": "refusal", "refusal": block.text}


def _image_part(block: Any) -> JsonObject | None:
    url = _url_of(block)
    return url and _nested_part("image_url", {"url": url, "detail": block.detail})


def _video_part(block: Any) -> JsonObject | None:
    url = _url_of(block)
    return url and _nested_part("video_url", {"url": url})


def _audio_part(block: Any) -> JsonObject | None:
    kind = block.mime_type.rpartition("/")[2]
    return _nested_part("input_audio", {"data": block.data, "format": _FORMATS.get(kind, kind)}) if block.data else None


def _resource_part(block: Any) -> JsonObject | None:
    if block.text is not None:
        return {"type": "text", "text": block.text}
    data = data_url(block.mime_type, block.data) if block.data else block.uri if block.wire == CHAT else ""
    if not data and not block.file_id:
        return None
    return _nested_part("file", {"file_id": block.file_id, "filename": block.name, "file_data": data})


def _no_part(block: Any) -> None:
    return None


_PARTS: Mapping[type, Callable[[Any], JsonObject | None]] = {
    Text: _text_part,
    Refusal: _refusal_part,
    Image: _image_part,
    Video: _video_part,
    Audio: _audio_part,
    Resource: _resource_part,
    Other: _no_part,
}


def _url_of(block: Image | Video) -> Any:
    return data_url(block.mime_type, block.data) if block.data else block.url or None


def _nested_part(kind: str, fields: Mapping[str, str]) -> JsonObject:
    return {"type": kind, kind: {name: value for name, value in fields.items() if value}}


def _with_extra(part: JsonObject, extra: JsonObject) -> JsonObject:
    grown = dict(part)
    for name, value in extra.items():
        inside = grown.get(name)
        both = isinstance(inside, Mapping) and isinstance(value, Mapping)
        grown[name] = {**inside, **value} if both else value  # type: ignore[dict-item]
    return grown
