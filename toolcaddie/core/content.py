"""Content of messages and tool results: text, or a tuple of blocks (text, images, files, ...), in a form that belongs to no
provider.

Each wire (the format of a provider's API) has its own form of a block. A block stores the wire it was read from (`wire`) and the
fields that only this wire has (`extra`), so that it can be sent over the same wire unchanged. Binary data stays in base64, as on
every wire; it is never decoded on the way.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Self, get_args

from msgspec import Struct

_Fields = Mapping[str, Any]

_LONGEST = 200
"""The largest number of characters of a name or an address in a placeholder."""
_UNITS = ((1_000_000, "MB"), (1_000, "kB"))


class _Block(Struct, frozen=True, kw_only=True, omit_defaults=True):
    annotations: _Fields | None = None
    """Annotations in the sense of MCP: audience, priority, lastModified."""
    wire: str = ""
    """The wire or protocol that the block was read from (`chat`, `messages`, `mcp`, ...); empty: it was made in this process."""
    extra: _Fields | None = None
    """Fields of `wire` that have no counterpart in this class."""


class Text(_Block, frozen=True, kw_only=True, omit_defaults=True, tag="text"):
    text: str


class Refusal(_Block, frozen=True, kw_only=True, omit_defaults=True, tag="refusal"):
    """The text with which a model declined to answer."""

    text: str


class _Media(_Block, frozen=True, kw_only=True, omit_defaults=True):
    """A medium. One of `data`, `url` and `file_id` says where it is."""

    data: str = ""
    """Base64."""
    mime_type: str = ""
    url: str = ""
    file_id: str = ""
    """Id of a file stored by the provider."""

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> Self:
        """Returns a block with these bytes."""
        return cls(data=base64.b64encode(data).decode(), mime_type=mime_type)


class Image(_Media, frozen=True, kw_only=True, omit_defaults=True, tag="image"):
    detail: str = ""
    """Resolution for the model: `low`, `high`, `auto`; empty: unspecified."""


class Audio(_Media, frozen=True, kw_only=True, omit_defaults=True, tag="audio"):
    pass


class Video(_Media, frozen=True, kw_only=True, omit_defaults=True, tag="video"):
    pass


class Resource(_Block, frozen=True, kw_only=True, omit_defaults=True, tag="resource"):
    """A file or a document: its `text`, its `data` in base64, or a mere link by `uri` or `file_id`."""

    uri: str = ""
    mime_type: str = ""
    text: str | None = None
    data: str = ""
    file_id: str = ""
    name: str = ""
    """A file's name."""
    title: str = ""
    description: str = ""
    size: int | None = None
    """Size in bytes; None: unknown."""


class Other(_Block, frozen=True, kw_only=True, omit_defaults=True, tag="other"):
    """A part for which there is no class here, unchanged from its wire; only the same wire can send it again."""

    part: _Fields
    problem: str = ""
    """The error of a part whose type is known but whose shape is wrong."""


Block = Text | Refusal | Image | Audio | Video | Resource | Other
Content = str | tuple[Block, ...]

BLOCKS: tuple[type[Block], ...] = get_args(Block)


def as_content(value: Any) -> Any:
    """Returns the value, a list of blocks as a tuple. Raises `TypeError` for a sequence that contains anything but blocks."""
    if not isinstance(value, list | tuple):
        return value
    for place, block in enumerate(value):
        if not isinstance(block, _Block):
            raise TypeError(
                f"content[{place}] is {type(block).__name__!r}, not a block such as Text(text='...') or Image(url='...'); "
                "to pass parts as dicts, make the whole message a dict: {'role': 'user', 'content': [...]}"
            )
    return tuple(value)


def blocks_of(content: Content | None) -> tuple[Block, ...]:
    """Returns content as blocks; no blocks for None and an empty text."""
    if isinstance(content, tuple):
        return content
    return (Text(text=content),) if content else ()


def text_of(content: Content | None) -> str:
    """Returns the text of content: text blocks and embedded documents, joined by newlines."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(text for block in content if (text := block_text(block)) is not None)


def block_text(block: Block) -> str | None:
    """Returns the text of a block; None: it has none (a picture, a link, a refusal)."""
    match block:
        case Text():
            return block.text
        case Resource():
            return block.text
        case _:
            return None


def shown_text(content: Content | None) -> str:
    """Returns content as text, with a `placeholder` for each block that has no text."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(placeholder(block) if (text := block_text(block)) is None else text for block in content)


def placeholder(block: Block) -> str:
    """Returns a line that stands for a block: `[image/png, 12 kB]`."""
    match block:
        case Text():
            return block.text
        case Refusal():
            return f"[refusal: {block.text}]"
        case Image() | Audio() | Video():
            facts = [block.mime_type or block_kind(block), _size_text(block.data), block.url or block.file_id]
        case Resource():
            name = block.title or block.name
            size = _size_text(block.data) or (_in_bytes(block.size) if block.size is not None else "")
            facts = [block.mime_type or block_kind(block), name, size, block.uri or block.file_id, block.description]
        case Other():
            facts = [str(block.part.get("type") or "content of an unknown kind")]
    return f"[{', '.join(_shortened(fact) for fact in facts if fact)}]"


def _shortened(text: str) -> str:
    """Returns a text cut to the length of a placeholder; a data URL may contain a whole picture."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def with_text(content: Content, text: str) -> Content:
    """Returns content with a text appended."""
    return content + text if isinstance(content, str) else (*content, Text(text=text.strip()))


def block_kind(block: Block) -> str | None:
    """Returns the kind of a block, for messages to people: `image`, or the type of an unknown part."""
    if isinstance(block, Other):
        kind = block.part.get("type")
        return None if kind is None else str(kind)
    return str(type(block).__struct_config__.tag)


def media_of(content: Content | None) -> Sequence[Image | Audio | Video | Resource]:
    """Returns the blocks with binary data."""
    if not isinstance(content, tuple):
        return ()
    return [block for block in content if isinstance(block, Image | Audio | Video | Resource) and block.data]


def byte_size(data: str) -> int:
    """Returns the number of bytes that a base64 text encodes."""
    return max(0, len(data) * 3 // 4 - data[-2:].count("="))


def data_url(mime_type: str, data: str) -> str:
    return f"data:{mime_type};base64,{data}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Returns MIME type and base64 of a data URL; None: it is not a base64 data URL with a type."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url.partition(",")
    mime_type = head[len("data:") :].removesuffix(";base64")
    if not comma or not mime_type or not data or not head.endswith(";base64"):
        return None
    return mime_type, data


def _size_text(data: str) -> str:
    return _in_bytes(byte_size(data)) if data else ""


def _in_bytes(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.0f} {name}"
    return f"{size} bytes"
