"""A cap on what a result may weigh, and text that can be written as UTF-8."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from toolcaddie.ports import CallNext, Invocation
from toolcaddie.tool_types import ToolResult

_CHUNK = 1_000_000


class Truncate:
    """Cuts results above `max_bytes` of UTF-8 at a character's boundary and says how long they were.

    What is cut loses its `structured` value, and so does a result whose `structured` alone is over the cap or is no JSON.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        return truncated(await call_next(invocation), self._max_bytes)


def truncated(result: ToolResult, max_bytes: int) -> ToolResult:
    """The result within `max_bytes`, the note included; half surrogate pairs become replacement characters."""
    content = result.content
    total = _size(content)
    if total > max_bytes:
        note = f"\n[cut here: the whole result has {total} bytes, this is its beginning]"
        # A character has one byte or more, so this slice holds all that can stay; the rest is never copied.
        start = _valid(content[:max_bytes]).encode()[: max(0, max_bytes - len(note))]
        return replace(result, content=start.decode(errors="ignore") + note, structured=None)
    if not content.isascii():
        content = _valid(content)
    structured = result.structured if _fits(result.structured, max_bytes) else None
    if content is result.content and structured is result.structured:
        return result
    return replace(result, content=content, structured=structured)


def _size(text: str) -> int:
    """Bytes in UTF-8, without a second copy of a text of many megabytes."""
    if text.isascii():
        return len(text)
    return sum(
        len(text[start : start + _CHUNK].encode(errors="surrogatepass")) for start in range(0, len(text), _CHUNK)
    )


def _valid(text: str) -> str:
    """Surrogates that pair up become the character they mean, lone ones the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _fits(structured: object, max_bytes: int) -> bool:
    if structured is None:
        return True
    try:
        return len(msgspec.json.encode(structured)) <= max_bytes
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False
