"""A request of chat completions: written for a provider, read at a door.

Door: the side where clients send requests to us. Provider: the side where we send requests to a model server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message, ModelRequest, is_empty_note
from toolcaddie.core.wire import DoorRequest, Envelope
from toolcaddie.util.replacing import replace
from toolcaddie.wires.bodies import ENCODER, encoded_array, field_value
from toolcaddie.wires.chat.messages import FUNCTION, read_message, write_message
from toolcaddie.wires.checks import check_messages, check_parts

WHAT = "a chat request"
"""Name of a request in error messages."""
_ANSWER = "answer"
"""Name of every output schema, because the wire requires one."""
_LONGEST_ID = 40
_DIGITS = 32
_OURS = frozenset({"model", "messages", "tools", "tool_choice", "stream"})


# ---------------------------------------------------------------- for a provider


def write_request(request: ModelRequest, *, model: str, stream: bool, usage: bool, author: str) -> bytes:
    """Returns the body of a request. `usage`: True makes a stream report its usage, even if the caller did not request it.

    `author`: the `provider:model` asked; extra fields of messages from other models are not sent.
    """
    messages = [
        write_message(_without_foreign_fields(message, author))
        for message in _with_short_ids(request.messages, author)
        if not is_empty_note(message)  # its only purpose is to reveal tools, which this wire cannot do
    ]
    body: dict[str, Any] = {"model": model, "messages": messages}
    if request.tools:
        body["tools"] = encoded_array(request.tools)
    choice = _choice(request)
    if choice is not None:
        body["tool_choice"] = choice
    if request.output_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": _ANSWER, "schema": request.output_schema},
        }
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key
    for name, value in (request.params or {}).items():
        body.setdefault(name, value)
    if not stream:
        body.pop("stream", None)
        body.pop("stream_options", None)  # servers refuse it without a stream
        return ENCODER.encode(body)
    body["stream"] = True
    if usage:
        options = body.get("stream_options") or {}
        if not isinstance(options, Mapping):
            raise RequestError("'stream_options' must be an object", param="stream_options")
        body["stream_options"] = {**options, "include_usage": True}
    return ENCODER.encode(body)


def asks_for_usage(params: Mapping[str, Any] | None) -> bool:
    """Returns True if the caller requested the usage of a stream."""
    options = (params or {}).get("stream_options")
    return isinstance(options, Mapping) and options.get("include_usage") is True


def _choice(request: ModelRequest) -> Any:
    """Returns the tool choice, limited to the allowed tools. All tools stay in the request, so that the provider's cache stays
    valid."""
    if request.allowed is None or not request.tools or request.tool_choice not in (None, "auto", "required"):
        return request.tool_choice
    tools = [{"type": FUNCTION, FUNCTION: {"name": name}} for name in request.allowed]
    return {"type": "allowed_tools", "allowed_tools": {"mode": request.tool_choice or "auto", "tools": tools}}


def _without_foreign_fields(message: Message, author: str) -> Message:
    """Returns the message without fields of another provider, which this one would refuse."""
    if not message.author or message.author == author:
        return message
    calls = tuple(
        call if call.extra and "type" in call.extra else replace(call, extra=None) for call in message.tool_calls
    )
    return replace(message, tool_calls=calls, extra=None)


def _with_short_ids(messages: Sequence[Message], author: str) -> Sequence[Message]:
    """Returns the messages with ids of other providers that are too long for this wire replaced, in calls and results. Ids of
    the caller stay: many servers accept longer ones, and a server that does not names the id in its error."""
    short_ids = {
        call.id: f"call_{hashlib.sha256(call.id.encode(errors='surrogatepass')).hexdigest()[:_DIGITS]}"
        for message in messages
        if message.author and message.author != author
        for call in message.tool_calls
        if len(call.id) > _LONGEST_ID
    }
    return [_renamed(message, short_ids) for message in messages] if short_ids else messages


def _renamed(message: Message, names: Mapping[str, str]) -> Message:
    calls = tuple(replace(call, id=names.get(call.id, call.id)) for call in message.tool_calls)
    result_of = message.tool_call_id
    return replace(
        message, tool_calls=calls, tool_call_id=None if result_of is None else names.get(result_of, result_of)
    )


# ---------------------------------------------------------------- at a door


def declines_tools(envelope: Envelope) -> bool:
    """Returns True if the request forbids tool calls."""
    choice = envelope.fields.get("tool_choice")
    return choice is not None and field_value(choice, what=WHAT) == "none"


def read_request(envelope: Envelope, bounds: Bounds) -> DoorRequest:
    """Returns the request without its tools. Raises `RequestError` naming the field at fault."""
    fields = {name: field_value(raw, what=WHAT) for name, raw in envelope.fields.items() if name != "tools"}
    model, messages = fields.get("model"), fields.get("messages")
    if not isinstance(model, str) or not model:
        raise RequestError("you must provide a model parameter", param="model")
    if not isinstance(messages, list) or not messages:
        raise RequestError("'messages' must be a non-empty array", param="messages")
    if len(messages) > bounds.messages:
        message = beyond(f"'messages' holds {len(messages):,}", bounds.messages, "messages")
        raise RequestError(message, param="messages", code="too_many_messages")
    if fields.get("n") not in (None, 1) or fields.get("n") is True:
        raise RequestError(
            "'n' must be 1 when tools are selected: each choice would need a conversation of its own", param="n"
        )
    _check_types(fields)
    check_parts(messages, bounds)
    read = tuple(read_message(item, f"messages[{index}]") for index, item in enumerate(messages))
    check_messages(read, bounds)
    return DoorRequest(
        model=model,
        messages=read,
        tool_choice=fields.get("tool_choice"),
        stream=bool(fields.get("stream")),
        params={name: value for name, value in fields.items() if name not in _OURS},
    )


_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "stream": ((bool,), "true or false"),
    "stream_options": ((dict,), "an object"),
    "stream_options.include_usage": ((bool,), "true or false"),
    "tool_choice": ((str, dict), "a string or an object"),
}
"""Types of the optional fields that are read here, by path; null is allowed too. Other fields are left to the provider."""


def _check_types(fields: Mapping[str, Any]) -> None:
    for path, (types, words) in _TYPES.items():
        value: Any = fields
        for name in path.split("."):
            value = None if value is None else value.get(name)
        if value is not None and not isinstance(value, types):
            raise RequestError(f"'{path}' must be {words}", param=path)
