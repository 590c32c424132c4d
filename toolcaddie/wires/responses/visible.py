"""The items of a run's answer for a client of the Responses API, if the provider speaks it too."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from toolcaddie.core.message import Message
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.wires.responses.messages import MESSAGE
from toolcaddie.wires.responses.own_calls import is_call
from toolcaddie.wires.responses.replies import call_item, message_item
from toolcaddie.wires.visible import Form, visible_blocks


def own_items(messages: Sequence[Message], calls: Sequence[ToolCall], ending: str) -> tuple[JsonObject, ...]:
    """Returns the output items of an answer; see `wires.visible`."""
    return tuple(visible_blocks(messages, calls, ending, _FORM))


def with_prefix(item: JsonObject, prefix: str) -> JsonObject:
    """Returns a message item with more text at its beginning."""
    first, *rest = item["content"]
    return {**item, "content": [{**first, "text": prefix + str(first.get("text") or "")}, *rest]}


def _text_of(item: JsonObject) -> str:
    if item.get("type") != MESSAGE:
        return ""
    parts = item.get("content")
    return str(parts[0].get("text") or "") if isinstance(parts, list) and parts and isinstance(parts[0], dict) else ""


def _new_call(call: ToolCall) -> JsonObject:
    return call_item(call, f"fc_{uuid.uuid4().hex}")


def _new_text(text: str) -> JsonObject:
    return message_item(f"msg_{uuid.uuid4().hex}", text=text)


_FORM = Form(
    is_call=is_call,
    call_id="call_id",
    new_call=_new_call,
    new_text=_new_text,
    text_of=_text_of,
    prefixed=with_prefix,
)
