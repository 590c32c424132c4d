"""Caps on what a result may weigh, its text and its media apart, and text that can be written as UTF-8."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from toolcaddie.control.results.held import HeldResults
from toolcaddie.control.results.text import utf8_size
from toolcaddie.core.content import Block, Content, Text, block_text, placeholder
from toolcaddie.core.errors import StorageError
from toolcaddie.core.meta_names import READ_RESULT
from toolcaddie.core.run import Limits
from toolcaddie.core.tool import ToolResult
from toolcaddie.ports import CallNext, Invocation
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.util.text import valid_text

log = Logger(__name__)

MEDIA_BYTES = Limits().result_media_bytes
_NAMED = 10
"""Blocks that a sentence names one by one."""


class Truncate:
    """Cuts the text of results above `max_bytes` of UTF-8 at a character's boundary and says how long it was.

    Blocks that hold no text stay whole while they fit into `media_bytes` together, as they are encoded; a sentence
    names the others. Where text of several blocks is cut, what stays of it is the first block.

    What is cut loses its `structured` value, and so does a result whose `structured` alone is over the cap or is no
    JSON. With `held` the whole text is kept for the one who asked, and the note says how `read_result` reads on.

    Stands outside all others: they see whole results, and what they make of them is within the cap too.
    """

    def __init__(self, max_bytes: int, *, media_bytes: int = MEDIA_BYTES, held: HeldResults | None = None) -> None:
        self._max_bytes = max_bytes
        self._media_bytes = media_bytes
        self._held = held

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        result = await call_next(invocation)
        handle = None
        if self._held is not None and utf8_size(result.text) > self._max_bytes:
            handle = await self._hold(self._held, result, invocation)
        return truncated(result, self._max_bytes, media_bytes=self._media_bytes, handle=handle)

    async def _hold(self, held: HeldResults, result: ToolResult, invocation: Invocation) -> str | None:
        try:
            return await held.hold(result.text, invocation.context.principal)
        except StorageError as error:  # its beginning is worth more to the model than an error
            log.warning("result_not_held", tool=invocation.tool.name, error=str(error))
            return None


def truncated(
    result: ToolResult, max_bytes: int, *, media_bytes: int = MEDIA_BYTES, handle: str | None = None
) -> ToolResult:
    """Returns the result with its text within `max_bytes`, the note included, and its media within `media_bytes`. Half
    surrogate pairs become replacement characters.

    `handle`: what `read_result` finds the whole text by.
    """
    text = result.text
    total = utf8_size(text)
    if total > max_bytes:
        room = max(0, max_bytes - len(_note(total, handle, total)))
        # A character has one byte or more, so this slice holds all that can stay; the rest is never copied.
        start = valid_text(text[:max_bytes]).encode()[:room].decode(errors="ignore")
        content = _cut(result.content, start + _note(total, handle, len(start)), media_bytes)
        return replace(result, content=content, structured=None, held=handle)
    content = _within(result.content, media_bytes)
    structured = result.structured if _fits(result.structured, max_bytes) else None
    if content is result.content and structured is result.structured:
        return result
    return replace(result, content=content, structured=structured)


def _cut(content: Content, text: str, media_bytes: int) -> Content:
    """Returns the text that is left, and the blocks without text behind it."""
    if isinstance(content, str):
        return text
    others = [block for block in content if block_text(block) is None]
    return (Text(text=text), *_fitting(others, media_bytes)) if others else text


def _within(content: Content, media_bytes: int) -> Content:
    if isinstance(content, str):
        return content if content.isascii() else valid_text(content)
    return _fitting([_valid(block) for block in content], media_bytes)


def _valid(block: Block) -> Block:
    text = block_text(block)
    return block if text is None or text.isascii() else replace(block, text=valid_text(text))


def _fitting(blocks: Sequence[Block], media_bytes: int) -> tuple[Block, ...]:
    """Returns the blocks while those without text fit together, and a sentence that names the others."""
    kept: list[Block] = []
    missing: list[Block] = []
    room: float = media_bytes
    for block in blocks:
        size = 0 if block_text(block) is not None else _encoded_size(block)
        if size > room:
            missing.append(block)
        else:
            kept.append(block)
            room -= size
    return (*kept, Text(text=_missing_note(missing, media_bytes))) if missing else tuple(kept)


def _missing_note(missing: Sequence[Block], media_bytes: int) -> str:
    named = " ".join(map(placeholder, missing[:_NAMED]))
    more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    return f"[left out: {named}{more}; what is no text in a result may have {media_bytes:,} bytes]"


def _encoded_size(block: Block) -> float:
    """Bytes of a block; without end where it cannot be written at all."""
    try:
        return len(msgspec.json.encode(block))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return float("inf")


def _note(total: int, handle: str | None, offset: int) -> str:
    """ASCII, and longest where `offset` is."""
    onward = "" if handle is None else f"; read on with {READ_RESULT}, handle {handle!r}, offset {offset}"
    return f"\n[cut here: the whole result has {total} bytes, this is its beginning{onward}]"


def _fits(structured: object, max_bytes: int) -> bool:
    if structured is None:
        return True
    try:
        return len(msgspec.json.encode(structured)) <= max_bytes
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False
