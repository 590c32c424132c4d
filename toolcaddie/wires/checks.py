"""Limits of the conversation that a client sends, the same on every wire (format of a model API). Doors use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message


def check_parts(messages: Sequence[Any], bounds: Bounds, *, param: str = "messages") -> None:
    """Checks the number of parts of decoded messages before any is read, because reading very many takes half a second. Raises
    `RequestError`. `param`: the field that has the messages."""
    contents = (message.get("content") for message in messages if isinstance(message, dict))
    check_count(sum(len(content) for content in contents if isinstance(content, list)), bounds, param)


def check_messages(messages: Sequence[Message], bounds: Bounds) -> None:
    """Checks the totals of all messages, and the names of their calls. Raises `RequestError`."""
    parts = sum(len(message.content) for message in messages if isinstance(message.content, tuple))
    check_count(parts, bounds, "messages")
    calls = sum(len(message.tool_calls) for message in messages)
    if calls > bounds.calls:
        message = beyond(f"'messages' holds {calls:,} tool calls", bounds.calls, "calls")
        raise RequestError(message, param="messages", code="too_many_tool_calls")
    for index, each in enumerate(messages):
        for number, call in enumerate(each.tool_calls):
            if len(call.name) > bounds.name:
                raise name_too_long(f"messages[{index}].tool_calls[{number}].function.name", call.name, bounds)


def check_count(parts: int, bounds: Bounds, param: str) -> None:
    """Checks a number of parts of content. Raises `RequestError`. `param`: the field that has them."""
    if parts > bounds.parts:
        message = beyond(f"'{param}' holds {parts:,} parts of content", bounds.parts, "parts")
        raise RequestError(message, param=param, code="too_many_parts")


def name_too_long(where: str, name: str, bounds: Bounds) -> RequestError:
    message = beyond(f"'{where}' has {len(name):,} characters", bounds.name, "name")
    return RequestError(message, param=where, code="name_too_long")
