"""Conversion of messages, calls and tools between chat completions and our types, in both directions.

Unknown fields of messages and calls pass through in `extra`. A call that is not of a function (OpenAI's custom tools) is kept
whole in `extra`, with its `type`; its `arguments` are only for display: the input as the model wrote it. Content is read and
written in `content.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.content import BLOCKS, Content
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message, Role
from toolcaddie.core.tool import CLIENT_SOURCE, JsonObject, Tool, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.wires.chat.content import read_content, write_content
from toolcaddie.wires.checks import name_too_long

FUNCTION, CUSTOM = "function", "custom"
_ROLES = tuple(sorted(get_args(Role)))
_MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id"})
_CALL_FIELDS = frozenset({"index", "id", "type", "function"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})
_QUOTED = 40
"""The largest number of characters of a wrong value that an error quotes."""


# ---------------------------------------------------------------- writing


def write_message(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": write_content(message.content, role=message.role)}
    if message.tool_calls:
        wire["tool_calls"] = [write_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return {**message.extra, **wire} if message.extra else wire


def write_call(call: ToolCall) -> dict[str, Any]:
    if call.extra and "type" in call.extra:
        return {"id": call.id, **call.extra}
    function: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    wire: dict[str, Any] = {"id": call.id, "type": FUNCTION, "function": function}
    if call.extra:
        nested = call.extra.get("function")
        return {**call.extra, **wire, "function": {**nested, **function} if nested else function}
    return wire


def write_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


# ---------------------------------------------------------------- unknown fields


def message_extra(wire: Mapping[str, Any]) -> JsonObject | None:
    """Returns the unknown fields of an answer. Nulls are omitted: they carry no information, and some servers refuse them in a
    later request."""
    return {k: v for k, v in wire.items() if v is not None and k not in _MESSAGE_FIELDS} or None


def call_extra(wire: Mapping[str, Any]) -> JsonObject | None:
    """Returns the unknown fields of a call, or of a piece of one."""
    extra = {name: value for name, value in wire.items() if name not in _CALL_FIELDS}
    nested = {k: v for k, v in (wire.get(FUNCTION) or {}).items() if k not in _FUNCTION_FIELDS}
    if nested:
        extra[FUNCTION] = nested
    return extra or None


# ---------------------------------------------------------------- reading what a client sent


def read_message(item: Any, where: str, *, by_hand: bool = False) -> Message:
    """Returns the message in `item`. `where`: its path in the request, such as `messages[3]`.

    Raises `RequestError` naming the field at fault.

    `by_hand`: a person wrote the message, so ids and arguments of calls may be missing, and `Text(...)` or
    `ToolCall(...)` may stand in place of JSON.
    """
    if not isinstance(item, Mapping):
        raise RequestError(f"'{where}' must be an object", param=where)
    extra = dict(item)
    role, content = extra.pop("role", None), extra.pop("content", None)
    if role not in _ROLES:
        value = repr(role[:_QUOTED]) if isinstance(role, str) else type(role).__name__
        raise RequestError(f"'{where}.role' must be one of {', '.join(_ROLES)}, not {value}", param=f"{where}.role")
    call_id, calls = extra.pop("tool_call_id", None), extra.pop("tool_calls", None) or ()
    if role == "tool" and not isinstance(call_id, str) and not (by_hand and call_id is None):
        raise RequestError(f"'{where}.tool_call_id' must name the call it answers", param=f"{where}.tool_call_id")
    if not isinstance(calls, list | tuple):
        raise RequestError(
            f"'{where}.tool_calls' must be an array, not {type(calls).__name__}", param=f"{where}.tool_calls"
        )
    return Message(
        role=role,
        content=_read_content(content, f"{where}.content"),
        tool_calls=tuple(
            _read_call(call, f"{where}.tool_calls[{number}]", by_hand=by_hand) for number, call in enumerate(calls)
        ),
        tool_call_id=call_id,
        extra=extra or None,
    )


def _read_content(content: Any, where: str) -> Content | None:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list | tuple) or not all(isinstance(part, (Mapping, *BLOCKS)) for part in content):
        raise RequestError(
            f"'{where}' must be a string or an array of parts such as {{'type': 'text', 'text': '...'}}, "
            f"not {type(content).__name__}",
            param=where,
        )
    return read_content(content)


def _read_call(item: Any, where: str, *, by_hand: bool) -> ToolCall:
    if by_hand and isinstance(item, ToolCall):
        return item
    call_id = item.get("id") if isinstance(item, Mapping) else None
    if by_hand and isinstance(item, Mapping):
        call_id = str(call_id or "")
    if not isinstance(call_id, str):
        raise RequestError(f"'{where}' must be an object with an id", param=where)
    extra: dict[str, Any] = {name: value for name, value in item.items() if name not in ("id", "type", "function")}
    kind, function = item.get("type", FUNCTION), item.get("function")
    if kind != FUNCTION:  # custom tools and future kinds go out unchanged
        inside = extra.get(str(kind))
        name = inside.get("name", kind) if isinstance(inside, Mapping) else kind
        return ToolCall(id=call_id, name=str(name), extra={"type": kind, **extra})
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError(f"'{where}.function' must have a name", param=f"{where}.function")
    arguments = function.get("arguments", "{}")
    if by_hand:
        arguments = arguments or "{}"
    if not isinstance(arguments, str):
        raise RequestError(
            f"'{where}.function.arguments' must be a string of JSON", param=f"{where}.function.arguments"
        )
    if unknown := {name: value for name, value in function.items() if name not in _FUNCTION_FIELDS}:
        extra["function"] = unknown
    return ToolCall(id=call_id, name=function["name"], arguments=arguments, extra=extra or None)


def read_tools(items: Any, bounds: Bounds) -> Sequence[Tool]:
    """Returns a client's tools. Raises `RequestError` naming the field at fault."""
    if not isinstance(items, list):
        raise RequestError("'tools' must be an array", param="tools")
    if len(items) > bounds.tools:
        message = beyond(f"'tools' holds {len(items):,}", bounds.tools, "tools")
        raise RequestError(message, param="tools", code="too_many_tools")
    tools = tuple(_read_tool(item, f"tools[{index}]") for index, item in enumerate(items))
    for index, tool in enumerate(tools):
        if len(tool.name) > bounds.name:
            raise name_too_long(f"tools[{index}].function.name", tool.name, bounds)
        if len(tool.description) > bounds.description:
            where = f"tools[{index}].function.description"
            message = beyond(f"'{where}' has {len(tool.description):,} characters", bounds.description, "description")
            raise RequestError(message, param=where, code="description_too_long")
    _check_unique(tools)
    return tools


def _check_unique(tools: Sequence[Tool]) -> None:
    first: dict[str, int] = {}
    for index, tool in enumerate(tools):
        earlier = first.setdefault(tool.name, index)
        if earlier != index:
            message = f"'tools[{index}]' repeats the name {tool.name!r} of 'tools[{earlier}]'; names must be unique"
            raise RequestError(message, param="tools", code="duplicate_tool")


def _read_tool(item: Any, where: str) -> Tool:
    match item:
        case {"type": "function", "function": {"name": str()} as function}:
            return _function_tool(function, item)
        case {"type": str(kind), **others} if kind != FUNCTION:
            inside = others.get(kind)
            own_name = inside.get("name") if isinstance(inside, dict) else None
            # Tools without a name (a server's own) get one that no model can call, so that two of them do not collide.
            return Tool(name=str(own_name or f"{where} {kind}"), source=CLIENT_SOURCE, core=True, definition=item)
    raise RequestError(f"'{where}' must have a type, and a function with a name", param=where)


def read_definition(item: Any, where: str) -> Tool:
    """Reads a hand-written definition as a tool. The wrapper `{"type": "function", "function": ...}` may be missing; it is added,
    because models' servers require it.

    Raises `RequestError` naming the field at fault.
    """
    function = item.get(FUNCTION, item) if isinstance(item, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError(f"{where}: a definition is an object with a function that has a name", param=where)
    if not isinstance(function.get("description"), str | None):
        raise RequestError(f"{where}: the description of {function['name']!r} must be a text", param=where)
    if not isinstance(function.get("parameters"), Mapping | None):
        raise RequestError(f"{where}: the parameters of {function['name']!r} must be a JSON Schema", param=where)
    return _function_tool(function, item if item.get("type") == FUNCTION else {"type": FUNCTION, FUNCTION: function})


def _function_tool(function: JsonObject, definition: JsonObject) -> Tool:
    """Returns the tool of a function. `definition`: the function in its wrapper, which is sent to the model unchanged. Calls of
    the tool are returned to the caller, who runs them (`CLIENT_SOURCE`)."""
    schema = function.get("parameters")
    return Tool(
        name=function["name"],
        description=str(function.get("description") or ""),
        input_schema=schema if isinstance(schema, Mapping) else {"type": "object", "properties": {}},
        source=CLIENT_SOURCE,
        definition=definition,
    )
