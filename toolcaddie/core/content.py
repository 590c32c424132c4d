"""Content of messages and results: text, or a tuple of blocks. Provider-neutral; what a block looks like is each wire's
affair.

A block remembers the wire it was read from (`wire`) and the fields that only this wire knows (`extra`), so that it goes
out there as it came in. Binary data stays in base64, as every wire carries it: nothing is decoded on the way.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Self, get_args

from msgspec import Struct

_Fields = Mapping[str, Any]

_LONGEST = 200
"""Characters of a name or an address in a placeholder."""
_UNITS = ((1_000_000, "MB"), (1_000, "kB"))


class _Block(Struct, frozen=True, kw_only=True, omit_defaults=True):
    annotations: _Fields | None = None
    """MCP's: audience, priority, lastModified."""
    wire: str = ""
    """The wire or protocol it was read from (`chat`, `messages`, `mcp`, ...); empty: made in this process."""
    extra: _Fields | None = None
    """Fields of `wire` that have no word here."""


class Text(_Block, frozen=True, kw_only=True, omit_defaults=True, tag="text"):
    text: str


class Refusal(_Block, frozen=True, kw_only=True, omit_defaults=True, tag="refusal"):
    """The words by which a model declined to answer."""

    text: str


class _Media(_Block, frozen=True, kw_only=True, omit_defaults=True):
    """`data`, or `url`, or a `file_id`."""

    data: str = ""
    """Base64."""
    mime_type: str = ""
    url: str = ""
    file_id: str = ""
    """The id of a file that the provider keeps."""

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> Self:
        """Returns the block that holds these bytes."""
        return cls(data=base64.b64encode(data).decode(), mime_type=mime_type)


class Image(_Media, frozen=True, kw_only=True, omit_defaults=True, tag="image"):
    detail: str = ""
    """How closely a model is to look: `low`, `high`, `auto`; empty: not said."""


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
    """Bytes, where a link says so."""


class Other(_Block, frozen=True, kw_only=True, omit_defaults=True, tag="other"):
    """A part that has no word here, as `wire` wrote it: only this wire can send it."""

    part: _Fields
    problem: str = ""
    """What is wrong with it, where it calls itself by a known name and is not of that shape."""


Block = Text | Refusal | Image | Audio | Video | Resource | Other
Content = str | tuple[Block, ...]

BLOCKS: tuple[type[Block], ...] = get_args(Block)


def as_content(value: Any) -> Any:
    """Returns content with a list of blocks made a tuple. Raises `TypeError` for a sequence that holds anything
    else."""
    if not isinstance(value, list | tuple):
        return value
    for place, block in enumerate(value):
        if not isinstance(block, _Block):
            raise TypeError(
                f"content[{place}] is {type(block).__name__!r}, not a block such as Text(text='...') or Image(url='...'); "
                "parts as dicts belong into a message that is a dict too: {'role': 'user', 'content': [...]}"
            )
    return tuple(value)


def blocks_of(content: Content | None) -> tuple[Block, ...]:
    """Returns content as blocks; an empty text is none."""
    if isinstance(content, tuple):
        return content
    return (Text(text=content),) if content else ()


def text_of(content: Content | None) -> str:
    """Returns the words of content: text blocks and embedded documents, joined by newlines."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(text for block in content if (text := block_text(block)) is not None)


def block_text(block: Block) -> str | None:
    """Returns the words of a block; None: it has none (a picture, a link, a refusal)."""
    match block:
        case Text():
            return block.text
        case Resource():
            return block.text
        case _:
            return None


def shown_text(content: Content | None) -> str:
    """Returns content for a reader who sees text only: `placeholder` stands for whatever is no text."""
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
            said = [block.mime_type or block_kind(block), _size_said(block.data), block.url or block.file_id]
        case Resource():
            name = block.title or block.name
            size = _size_said(block.data) or (_in_bytes(block.size) if block.size is not None else "")
            said = [block.mime_type or block_kind(block), name, size, block.uri or block.file_id, block.description]
        case Other():
            said = [str(block.part.get("type") or "content of an unknown kind")]
    return f"[{', '.join(_shortened(each) for each in said if each)}]"


def _shortened(text: str) -> str:
    """Returns a text short enough for a placeholder: an address may be a whole picture."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def with_text(content: Content, text: str) -> Content:
    """Returns content with words behind it."""
    return content + text if isinstance(content, str) else (*content, Text(text=text.strip()))


def block_kind(block: Block) -> str | None:
    """Returns the name of a block's kind, for messages to people: `image`, or what an unknown part calls itself."""
    if isinstance(block, Other):
        kind = block.part.get("type")
        return None if kind is None else str(kind)
    return str(type(block).__struct_config__.tag)


def media_of(content: Content | None) -> Sequence[Image | Audio | Video | Resource]:
    """Returns the blocks that hold binary data."""
    if not isinstance(content, tuple):
        return ()
    return [block for block in content if isinstance(block, Image | Audio | Video | Resource) and block.data]


def byte_size(data: str) -> int:
    """Returns how many bytes a base64 text stands for."""
    return max(0, len(data) * 3 // 4 - data[-2:].count("="))


def data_url(mime_type: str, data: str) -> str:
    return f"data:{mime_type};base64,{data}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Returns MIME type and base64 of a data URL; None: it is no such URL, or says no type."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url.partition(",")
    mime_type = head[len("data:") :].removesuffix(";base64")
    if not comma or not mime_type or not data or not head.endswith(";base64"):
        return None
    return mime_type, data


def _size_said(data: str) -> str:
    return _in_bytes(byte_size(data)) if data else ""


def _in_bytes(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.0f} {name}"
    return f"{size} bytes"
