"""Middleware that cuts long results, with separate limits for text and media. The resulting text is valid UTF-8."""

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
from toolcaddie.guards.markers import end_of
from toolcaddie.ports import CallNext, Invocation
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.util.text import valid_text

log = Logger(__name__)

MEDIA_BYTES = Limits().result_media_bytes
"""Default of the largest size in bytes of all media of a result."""
_MAX_NAMES = 10
"""Largest number of omitted blocks that a sentence names."""


class Truncate:
    """Cuts text that is longer than `max_bytes` in UTF-8, between two characters, and adds a note with its whole length.

    Blocks without text (media) are never cut: they stay as long as their encoded sizes fit into `media_bytes` together, and a
    sentence names the omitted ones. If the text of several blocks is cut, its beginning becomes the first block.

    A cut result loses its `structured` value. A result also loses it if `structured` alone is over the limit or is not JSON.
    With `held`, the whole text is stored for the caller, and the note says how to read on with `read_result`.

    A text between the markers of untrusted content keeps both markers.

    Is the outermost layer: all other layers see whole results, and what they add is within the limit too.
    """

    def __init__(self, max_bytes: int, *, media_bytes: int = MEDIA_BYTES, held: HeldResults | None = None) -> None:
        self._max_bytes = max_bytes
        self._media_bytes = media_bytes
        self._held = held

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        result = await call_next(invocation)
        if invocation.whole:
            return result
        handle = None
        if self._held is not None and utf8_size(result.text) > self._max_bytes:
            handle = await self._hold(self._held, result, invocation)
        return truncated(result, self._max_bytes, media_bytes=self._media_bytes, handle=handle)

    async def _hold(self, held: HeldResults, result: ToolResult, invocation: Invocation) -> str | None:
        try:
            return await held.hold(result.text, invocation.tool, invocation.context.principal)
        except StorageError as error:  # without a handle the model still gets the beginning of the result
            log.warning("result_not_held", tool=invocation.tool.name, error=str(error))
            return None


def truncated(
    result: ToolResult, max_bytes: int, *, media_bytes: int = MEDIA_BYTES, handle: str | None = None
) -> ToolResult:
    """Returns the result with its text within `max_bytes`, the note included, and its media within `media_bytes`. Half
    surrogate pairs become replacement characters.

    `handle`: the name under which `read_result` finds the whole text.
    """
    text = result.text
    total = utf8_size(text)
    if total > max_bytes:
        end = end_of(text)
        room = max(0, max_bytes - len(_note(total, handle, total)) - len(end))
        # A character has one byte or more, so this slice holds all that can stay, and no more is copied.
        start = valid_text(text[:max_bytes]).encode()[:room].decode(errors="ignore")
        content = _cut(result.content, start + end + _note(total, handle, len(start)), media_bytes)
        return replace(result, content=content, structured=None, held=handle)
    content = _within(result.content, media_bytes)
    structured = result.structured if _fits(result.structured, max_bytes) else None
    if content is result.content and structured is result.structured:
        return result
    return replace(result, content=content, structured=structured)


def _cut(content: Content, text: str, media_bytes: int) -> Content:
    """Returns the cut text, followed by the blocks without text."""
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
    """Returns the blocks that fit together, and a sentence that names the others. Text always fits."""
    fitting: list[Block] = []
    missing: list[Block] = []
    room: float = media_bytes
    for block in blocks:
        size = 0 if block_text(block) is not None else _encoded_size(block)
        if size > room:
            missing.append(block)
        else:
            fitting.append(block)
            room -= size
    return (*fitting, Text(text=_missing_note(missing, media_bytes))) if missing else tuple(fitting)


def _missing_note(missing: Sequence[Block], media_bytes: int) -> str:
    placeholders = " ".join(map(placeholder, missing[:_MAX_NAMES]))
    more = f" and {len(missing) - _MAX_NAMES:,} more" if len(missing) > _MAX_NAMES else ""
    return f"[left out: {placeholders}{more}; the media of a result may have {media_bytes:,} bytes]"


def _encoded_size(block: Block) -> float:
    """Returns the bytes of a block; infinity if it cannot be encoded."""
    try:
        return len(msgspec.json.encode(block))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return float("inf")


def _note(total: int, handle: str | None, offset: int) -> str:
    """Returns the note on a cut, in ASCII. No other `offset` gives a longer note than the largest one."""
    onward = "" if handle is None else f"; read on with {READ_RESULT}, handle {handle!r}, offset {offset}"
    return f"\n[cut here: the whole result has {total} bytes, this is its beginning{onward}]"


def _fits(structured: object, max_bytes: int) -> bool:
    """Returns True if the structured value is JSON of at most `max_bytes`, or absent."""
    if structured is None:
        return True
    try:
        return len(msgspec.json.encode(structured)) <= max_bytes
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False
