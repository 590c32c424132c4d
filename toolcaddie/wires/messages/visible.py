"""The blocks of a run's answer for a client of the Messages API, if the provider speaks it too."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.message import Message
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.wires.messages.content import TEXT, text_block
from toolcaddie.wires.messages.messages import write_call
from toolcaddie.wires.visible import Form, visible_blocks


def own_blocks(messages: Sequence[Message], calls: Sequence[ToolCall], ending: str) -> tuple[JsonObject, ...]:
    """Returns the content blocks of an answer; see `wires.visible`."""
    return tuple(visible_blocks(messages, calls, ending, _FORM))


def _text_of(block: JsonObject) -> str:
    return str(block.get(TEXT) or "") if block.get("type") == TEXT else ""


def _prefixed(block: JsonObject, prefix: str) -> JsonObject:
    return {**block, TEXT: prefix + block[TEXT]}


def _is_call(block: JsonObject) -> bool:
    return block.get("type") == "tool_use"


_FORM = Form(
    is_call=_is_call, call_id="id", new_call=write_call, new_text=text_block, text_of=_text_of, prefixed=_prefixed
)
