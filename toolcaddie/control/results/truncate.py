"""A cap on what a result may weigh, and text that can be written as UTF-8."""

from __future__ import annotations

import msgspec

from toolcaddie.control.results.held import HeldResults
from toolcaddie.control.results.text import utf8_size, valid_text
from toolcaddie.core.errors import StorageError
from toolcaddie.core.meta_names import READ_RESULT
from toolcaddie.core.tool import ToolResult
from toolcaddie.ports import CallNext, Invocation
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)


class Truncate:
    """Cuts results above `max_bytes` of UTF-8 at a character's boundary and says how long they were.

    What is cut loses its `structured` value, and so does a result whose `structured` alone is over the cap or is no JSON.
    With `held` the whole text is kept for the one who asked, and the note says how `read_result` reads on.

    Stands outside all others: they see whole results, and what they make of them is within the cap too.
    """

    def __init__(self, max_bytes: int, *, held: HeldResults | None = None) -> None:
        self._max_bytes = max_bytes
        self._held = held

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        result = await call_next(invocation)
        handle = None
        if self._held is not None and utf8_size(result.content) > self._max_bytes:
            handle = await self._hold(self._held, result, invocation)
        return truncated(result, self._max_bytes, handle=handle)

    async def _hold(self, held: HeldResults, result: ToolResult, invocation: Invocation) -> str | None:
        try:
            return await held.hold(result.content, invocation.context.principal)
        except StorageError as error:  # its beginning is worth more to the model than an error
            log.warning("result_not_held", tool=invocation.tool.name, error=str(error))
            return None


def truncated(result: ToolResult, max_bytes: int, *, handle: str | None = None) -> ToolResult:
    """The result within `max_bytes`, the note included; half surrogate pairs become replacement characters.

    `handle`: what `read_result` finds the whole text by.
    """
    content = result.content
    total = utf8_size(content)
    if total > max_bytes:
        room = max(0, max_bytes - len(_note(total, handle, total)))
        # A character has one byte or more, so this slice holds all that can stay; the rest is never copied.
        start = valid_text(content[:max_bytes]).encode()[:room].decode(errors="ignore")
        return replace(result, content=start + _note(total, handle, len(start)), structured=None, held=handle)
    if not content.isascii():
        content = valid_text(content)
    structured = result.structured if _fits(result.structured, max_bytes) else None
    if content is result.content and structured is result.structured:
        return result
    return replace(result, content=content, structured=structured)


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
