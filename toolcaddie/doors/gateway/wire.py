"""OpenAI's chat-completions wire, read at the door and written at the door; inside there are only our own words."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.bounds import DEFAULT, LARGE, Bounds, beyond
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message, Usage
from toolcaddie.core.run import RunResult
from toolcaddie.core.schema.counts import check_counts
from toolcaddie.core.tool import CLIENT_SOURCE, Tool, ToolCall
from toolcaddie.doors.gateway.essential import NO_TOOLS, KnownTools
from toolcaddie.providers.chat_wire import call_to_wire

_ROLES = ("assistant", "developer", "function", "system", "tool", "user")
BETWEEN_ROUNDS = "\n\n"
"""Words of two model calls must not run into each other."""
_OURS = frozenset({"model", "messages", "tools", "tool_choice", "stream"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})


@dataclass(frozen=True, slots=True)
class Peek:
    """The fields of a request as bytes; only those that decide its way are read. Most bodies are mostly tools."""

    fields: Mapping[str, msgspec.Raw]

    @property
    def tools(self) -> bytes:
        return bytes(self.fields.get("tools", b"null"))

    @property
    def has_tools(self) -> bool:
        return self.tools not in (b"null", b"[]")

    def get(self, name: str) -> Any:
        """A field's value; None if it is not there."""
        found = self.fields.get(name)
        return None if found is None else _value(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A chat request in our words. `params` are all fields that are not ours to read, untouched."""

    model: str
    messages: tuple[Message, ...]
    tools: Sequence[Tool]
    known: KnownTools
    tool_choice: Any
    stream: bool
    include_usage: bool
    params: dict[str, Any]


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()


def peek(body: bytes, bounds: Bounds = DEFAULT) -> Peek:
    """Raises `RequestError` where the body is no JSON object, or holds more than the bounds allow."""
    if len(body) >= LARGE:
        _check_fields(check_counts(body, bounds, what="the body").fields, bounds)
    try:
        fields = _fields.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _not_json(error) from error
    _check_fields(len(fields), bounds)
    return Peek(fields)


def _check_fields(count: int, bounds: Bounds) -> None:
    if count > bounds.keys:
        raise RequestError(beyond(f"the request has {count:,} fields", bounds.keys, "keys"), code="too_many_fields")


def _value(raw: msgspec.Raw | bytes) -> Any:
    try:
        return _any.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _not_json(error) from error


def _not_json(error: Exception) -> RequestError:
    return RequestError(f"the body is not the JSON of a chat request: {error}", code="invalid_json")


class ToolLists:
    """Clients send the same tools with every request: each different list is read once.

    Keeps up to `size` lists and `weight` bytes of JSON, the ones used last (read, they weigh some eight times as much).
    Safe for many threads.
    """

    def __init__(self, size: int = 256, weight: int = 16 * 1024 * 1024, *, bounds: Bounds = DEFAULT) -> None:
        self._size = size
        self._weight = weight
        self._bounds = bounds
        self._read: OrderedDict[bytes, tuple[Sequence[Tool], KnownTools]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, raw: bytes) -> tuple[Sequence[Tool], KnownTools]:
        """The tools, and what is known of them: the same objects for the same bytes, so that whatever is derived from a list
        can be kept by its identity."""
        with self._lock:
            if raw in self._read:
                self._read.move_to_end(raw)
                return self._read[raw]
        tools = _client_tools(_value(raw), self._bounds)
        read = tools, KnownTools.of(tools)
        with self._lock:
            if raw in self._read:  # another thread read it meanwhile
                return self._read[raw]
            self._read[raw] = read
            self._weight -= len(raw)
            while len(self._read) > 1 and (len(self._read) > self._size or self._weight < 0):
                forgotten, _ = self._read.popitem(last=False)
                self._weight += len(forgotten)
        return read


_NONE: tuple[Sequence[Tool], KnownTools] = ((), NO_TOOLS)


def read_chat(peeked: Peek, lists: ToolLists, bounds: Bounds = DEFAULT) -> ChatRequest:
    """Raises `RequestError` naming the field at fault."""
    fields = {name: _value(raw) for name, raw in peeked.fields.items() if name != "tools"}
    model, messages = fields.get("model"), fields.get("messages")
    if not isinstance(model, str) or not model:
        raise RequestError("you must provide a model parameter", param="model")
    if not isinstance(messages, list) or not messages:
        raise RequestError("'messages' must be a non-empty array", param="messages")
    if len(messages) > bounds.messages:
        told = beyond(f"'messages' holds {len(messages):,}", bounds.messages, "messages")
        raise RequestError(told, param="messages", code="too_many_messages")
    if fields.get("n") not in (None, 1) or fields.get("n") is True:
        raise RequestError(
            "'n' must be 1 when tools are selected: each choice would need a conversation of its own", param="n"
        )
    _check_types(fields)
    read = tuple(_message(item, index) for index, item in enumerate(messages))
    _check_messages(read, bounds)
    tools, known = lists.read(peeked.tools) if peeked.has_tools else _NONE
    options = fields.get("stream_options") or {}
    return ChatRequest(
        model=model,
        messages=read,
        tools=tools,
        known=known,
        tool_choice=fields.get("tool_choice"),
        stream=bool(fields.get("stream")),
        include_usage=bool(options.get("include_usage")),
        params={name: value for name, value in fields.items() if name not in _OURS},
    )


_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "stream": ((bool,), "true or false"),
    "stream_options": ((dict,), "an object"),
    "stream_options.include_usage": ((bool,), "true or false"),
    "tool_choice": ((str, dict), "a string or an object"),
}
"""Optional fields that are read here, by their path, with what they may be beside null. The others are the provider's."""


def _check_types(fields: Mapping[str, Any]) -> None:
    for path, (types, words) in _TYPES.items():
        value: Any = fields
        for name in path.split("."):
            value = None if value is None else value.get(name)
        if value is not None and not isinstance(value, types):
            raise RequestError(f"'{path}' must be {words}", param=path)


def _check_messages(messages: Sequence[Message], bounds: Bounds) -> None:
    """What all messages hold together."""
    parts = sum(len(message.content) for message in messages if isinstance(message.content, tuple))
    if parts > bounds.parts:
        told = beyond(f"'messages' holds {parts:,} parts of content", bounds.parts, "parts")
        raise RequestError(told, param="messages", code="too_many_parts")
    calls = sum(len(message.tool_calls) for message in messages)
    if calls > bounds.calls:
        told = beyond(f"'messages' holds {calls:,} tool calls", bounds.calls, "calls")
        raise RequestError(told, param="messages", code="too_many_tool_calls")
    for index, message in enumerate(messages):
        for number, call in enumerate(message.tool_calls):
            if len(call.name) > bounds.name:
                where = f"messages[{index}].tool_calls[{number}].function.name"
                raise _name_too_long(where, call.name, bounds)


def _name_too_long(where: str, name: str, bounds: Bounds) -> RequestError:
    told = beyond(f"'{where}' has {len(name):,} characters", bounds.name, "name")
    return RequestError(told, param=where, code="name_too_long")


def _message(item: Any, index: int) -> Message:
    where = f"messages[{index}]"
    if not isinstance(item, dict):
        raise RequestError(f"'{where}' must be an object", param=where)
    rest = dict(item)
    role, content = rest.pop("role", None), rest.pop("content", None)
    if role not in _ROLES:
        raise RequestError(f"'{where}.role' must be one of {', '.join(_ROLES)}", param=f"{where}.role")
    if isinstance(content, list):
        if not all(isinstance(part, dict) for part in content):
            raise RequestError(f"'{where}.content' must be a string or an array of parts", param=f"{where}.content")
        content = tuple(content)
    elif content is not None and not isinstance(content, str):
        raise RequestError(f"'{where}.content' must be a string or an array of parts", param=f"{where}.content")
    call_id = rest.pop("tool_call_id", None)
    if role == "tool" and not isinstance(call_id, str):
        raise RequestError(f"'{where}.tool_call_id' must name the call it answers", param=f"{where}.tool_call_id")
    calls = rest.pop("tool_calls", None) or ()
    if not isinstance(calls, list | tuple):
        raise RequestError(f"'{where}.tool_calls' must be an array", param=f"{where}.tool_calls")
    return Message(
        role=role,
        content=content,
        tool_calls=tuple(_call(call, f"{where}.tool_calls[{number}]") for number, call in enumerate(calls)),
        tool_call_id=call_id,
        extra=rest or None,
    )


def _call(item: Any, where: str) -> ToolCall:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        raise RequestError(f"'{where}' must be an object with an id", param=where)
    rest: dict[str, Any] = {name: value for name, value in item.items() if name not in ("id", "type", "function")}
    kind, function = item.get("type", "function"), item.get("function")
    if kind != "function":  # custom tools and kinds still to come go out as they came in
        inside = rest.get(str(kind))
        name = inside.get("name", kind) if isinstance(inside, dict) else kind
        return ToolCall(id=item["id"], name=str(name), extra={"type": kind, **rest})
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise RequestError(f"'{where}.function' must have a name", param=f"{where}.function")
    arguments = function.get("arguments", "{}")
    if not isinstance(arguments, str):
        raise RequestError(
            f"'{where}.function.arguments' must be a string of JSON", param=f"{where}.function.arguments"
        )
    if unknown := {name: value for name, value in function.items() if name not in _FUNCTION_FIELDS}:
        rest["function"] = unknown
    return ToolCall(id=item["id"], name=function["name"], arguments=arguments, extra=rest or None)


def _client_tools(items: Any, bounds: Bounds) -> Sequence[Tool]:
    if not isinstance(items, list):
        raise RequestError("'tools' must be an array", param="tools")
    if len(items) > bounds.tools:
        told = beyond(f"'tools' holds {len(items):,}", bounds.tools, "tools")
        raise RequestError(told, param="tools", code="too_many_tools")
    tools = tuple(_client_tool(item, f"tools[{index}]") for index, item in enumerate(items))
    for index, tool in enumerate(tools):
        if len(tool.name) > bounds.name:
            raise _name_too_long(f"tools[{index}].function.name", tool.name, bounds)
        if len(tool.description) > bounds.description:
            where = f"tools[{index}].function.description"
            told = beyond(f"'{where}' has {len(tool.description):,} characters", bounds.description, "description")
            raise RequestError(told, param=where, code="description_too_long")
    first: dict[str, int] = {}
    for index, tool in enumerate(tools):
        if first.setdefault(tool.name, index) != index:
            told = (
                f"'tools[{index}]' repeats the name {tool.name!r} of 'tools[{first[tool.name]}]'; names must be unique"
            )
            raise RequestError(told, param="tools", code="duplicate_tool")
    return tools


def _client_tool(item: Any, where: str) -> Tool:
    match item:
        case {"type": "function", "function": {"name": str(name), **function}}:
            schema = function.get("parameters")
            return Tool(
                name=name,
                description=str(function.get("description") or ""),
                input_schema=schema if isinstance(schema, dict) else {"type": "object", "properties": {}},
                source=CLIENT_SOURCE,
                definition=item,
            )
        case {"type": str(kind), **rest} if kind != "function":
            inside = rest.get(kind)
            given = inside.get("name") if isinstance(inside, dict) else None
            # Kinds without a name (a server's own tools) get one nobody can call, so that two of them do not collide.
            return Tool(name=str(given or f"{where} {kind}"), source=CLIENT_SOURCE, core=True, definition=item)
    raise RequestError(f"'{where}' must have a type, and a function with a name", param=where)


# --- answers -----------------------------------------------------------------------------------------------------------


def usage_on_wire(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def usage_of(result: RunResult) -> dict[str, Any]:
    """The provider's own figures when there was one model call, the sum when there were more."""
    raw = (result.raw or {}).get("usage")
    if isinstance(raw, dict) and result.state.usage == result.state.last_usage:
        return raw
    return usage_on_wire(result.usage)


def finish_reason(result: RunResult) -> str:
    """The provider's own where it says that the answer was cut short; else what the client has before it."""
    said = result.state.finish_reason
    if said not in ("", "stop", "tool_calls", "function_call"):
        return said
    return "tool_calls" if result.client_calls else "stop"


def write_chat(result: RunResult, *, created: int, model: str) -> bytes:
    """The body of a plain answer: the provider's last body with what is ours to change changed."""
    raw: Mapping[str, Any] = result.raw or {}
    choices = raw.get("choices")
    choice = dict(choices[0]) if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    said = choice.get("message")
    message = {**(said if isinstance(said, dict) else {}), "role": "assistant", "content": answer_text(result)}
    message.pop("tool_calls", None)
    if result.client_calls:
        message["tool_calls"] = [call_to_wire(call) for call in result.client_calls]
    message.setdefault("refusal", None)
    body = {
        "id": f"chatcmpl-{result.run_id}",
        "object": "chat.completion",
        "created": created,
        "model": result.state.model or model,
        **{name: value for name, value in raw.items() if name not in ("choices", "usage")},
        "choices": [
            {"logprobs": None, **choice, "index": 0, "message": message, "finish_reason": finish_reason(result)}
        ],
        "usage": usage_of(result),
    }
    return msgspec.json.encode(body)


def answer_text(result: RunResult) -> str | None:
    """What the caller reads: all the model said in its rounds, as a stream shows it. A run that waits for a
    person says so; it cannot ask over plain HTTP."""
    said = [message.text for message in result.messages if message.role == "assistant" and message.text]
    if result.status == "pending":
        said.append(approval_text(result))
    return BETWEEN_ROUNDS.join(said) or (None if result.client_calls else "")


def approval_text(result: RunResult) -> str:
    waiting = ", ".join(item.call.name for item in result.state.pending if item.waiting == "approval")
    return f"This needs a person's approval before it goes on: {waiting} (run {result.run_id})."
