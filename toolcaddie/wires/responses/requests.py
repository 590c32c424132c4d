"""A request of the Responses API: written for a provider, read at a door.

Door: the side where clients send requests to us. Provider: the side where we send requests to a model server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import DoorRequest, Envelope
from toolcaddie.wires.bodies import ENCODER, field_value
from toolcaddie.wires.checks import check_count, check_parts
from toolcaddie.wires.neutral import is_neutral
from toolcaddie.wires.responses.messages import Conversation, ToolForms, read_items
from toolcaddie.wires.responses.own_forms import chosen, grouped, internal_name, loaded_tools

WHAT = "a request of the Responses API"
"""Name of a request in error messages."""
_ANSWER = "answer"
"""Name of every output schema, because the wire requires one."""

_HINTS = frozenset({"seed", "prediction", "stream", "stream_options"})
"""Parameters of chat completions that are omitted: the provider may ignore a seed and a prediction anyway, and the fields for
streaming are set separately."""
_RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_NESTED = {
    "reasoning_effort": ("reasoning", "effort"),
    "response_format": ("text", "format"),
    "verbosity": ("text", "verbosity"),
}

_ENCRYPTED = "reasoning.encrypted_content"
_NEVER_REASON = ("gpt-3", "gpt-4", "chatgpt-4")
"""Prefixes of models that refuse a request for encrypted reasoning."""

_MODES = ("auto", "none", "required")
_OURS = frozenset({"model", "input", "instructions", "tools", "tool_choice", "stream"})
_STORED = ("previous_response_id", "conversation", "prompt")
"""Fields that refer to something stored on the server."""


# ---------------------------------------------------------------- for a provider


def write_request(request: ModelRequest, *, model: str, stream: bool, author: str, tools: ToolForms) -> bytes:
    """Returns the body of a request. `tools` keeps translated definitions from one request to the next. Raises `RequestError`
    for a request that this API cannot express."""
    sent_forms, deferred = tools.split(request)
    own_forms = request.own_forms if request.client_wire == "responses" else {}
    conversation = Conversation(author, deferred, own_forms)
    for message in request.messages:
        conversation.take(message)
    conversation.close_turn()
    sent_forms = [(name, form) for name, form in sent_forms if name not in conversation.loaded]

    body: dict[str, Any] = {"model": model, "store": False}
    if not model.rpartition("/")[2].removeprefix("ft:").startswith(_NEVER_REASON):
        body["include"] = [_ENCRYPTED]
    body.update(_settings(request.params or {}))
    body["model"], body["input"] = model, conversation.items
    if sent_forms:
        body["tools"] = grouped(sent_forms, own_forms)
    choice = _choice(request, {name for name, _ in sent_forms} | conversation.loaded, own_forms)
    if choice is not None:
        body["tool_choice"] = choice
    if request.output_schema is not None:
        form = {"type": "json_schema", "name": _ANSWER, "schema": request.output_schema}
        body["text"] = {**body.get("text", {}), "format": form}
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key
    if stream:
        body["stream"] = True
        body.update(_stream_options(request.params or {}))
    return ENCODER.encode(body)


# ---------------------------------------------------------------- parameters


def _settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters under the names of this API; parameters that are None are omitted."""
    settings: dict[str, Any] = {}
    nested: list[tuple[str, str, Any]] = []
    for name, value in params.items():
        if name in _HINTS or is_neutral(name, value):
            continue
        if name in _NESTED:
            nested.append((*_NESTED[name], value))
        else:
            settings.setdefault(_RENAMED.get(name, name), value)
    for outer, inner, value in nested:
        own = settings.get(outer, {})
        if not isinstance(own, Mapping):
            raise RequestError(f"the parameter {outer!r} must be an object, not {type(own).__name__}", param=outer)
        settings[outer] = {inner: _format(value) if inner == "format" else value, **own}
    return settings


def _format(value: Any) -> Any:
    """Returns the format of the answer. A schema is one level higher here than in chat completions."""
    schema = value.get("json_schema") if isinstance(value, Mapping) else None
    return {"type": "json_schema", **schema} if isinstance(schema, Mapping) else value


def _stream_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a stream without `include_usage`, which this API refuses because it always reports usage."""
    options = params.get("stream_options")
    if not isinstance(options, Mapping):
        return {}
    others = {name: value for name, value in options.items() if name != "include_usage"}
    return {"stream_options": others} if others else {}


def _choice(request: ModelRequest, names: Collection[str], own_forms: Mapping[str, JsonObject]) -> Any:
    """Returns the tool choice, limited to the allowed tools. All tools stay in the request, so that the provider's cache stays
    valid. `names`: the tools that can be called."""
    choice = request.tool_choice
    if not names:
        if choice in (None, "auto", "none"):
            return None
        raise _no_choice("no tool is sent or revealed that could be called")
    if request.allowed is not None and choice in (None, "auto", "required"):
        allowed = [chosen(name, own_forms) for name in request.allowed if name in names]
        if not allowed:
            return "none"
        return {"type": "allowed_tools", "mode": choice or "auto", "tools": allowed}
    if choice is None or (isinstance(choice, str) and choice in _MODES):
        return choice
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        return chosen(_function_name(choice, names), own_forms)
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        return _allowed(choice.get("allowed_tools"), names, own_forms)
    raise _no_choice(f"it is none of {', '.join(_MODES)}, a function and allowed_tools")


def _function_name(choice: Any, names: Collection[str]) -> str:
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise _no_choice("it names no function")
    if name not in names:
        raise _no_choice(f"the tool {name!r} it names is not sent, or not revealed yet")
    return name


def _allowed(allowed: Any, names: Collection[str], own_forms: Mapping[str, JsonObject]) -> dict[str, Any]:
    tools = allowed.get("tools") if isinstance(allowed, Mapping) else None
    if not isinstance(tools, list | tuple) or not tools or allowed.get("mode") not in ("auto", "required"):
        raise _no_choice("allowed_tools needs a mode, auto or required, and a list of tools")
    functions = [chosen(_function_name(tool, names), own_forms) for tool in tools]
    return {"type": "allowed_tools", "mode": allowed["mode"], "tools": functions}


def _no_choice(why: str) -> RequestError:
    return RequestError(f"tool_choice cannot be followed: {why}", param="tool_choice")


# ---------------------------------------------------------------- at a door


def declines_tools(envelope: Envelope) -> bool:
    """Returns True if the request forbids tool calls."""
    choice = envelope.fields.get("tool_choice")
    return choice is not None and field_value(choice, what=WHAT) == "none"


def read_request(envelope: Envelope, bounds: Bounds) -> DoorRequest:
    """Returns the request without its tools. Parameters get the names of chat completions, which Toolcaddie uses. Raises
    `RequestError` naming the field at fault."""
    fields = {name: field_value(raw, what=WHAT) for name, raw in envelope.fields.items() if name != "tools"}
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise RequestError("you must provide a model parameter", param="model")
    for name in _STORED:
        if fields.get(name) is not None:
            raise RequestError(
                f"'{name}' refers to something that only the provider stores, and the tools for this request are selected "
                "here; send all of it in 'instructions' and 'input'",
                param=name,
            )
    if not isinstance(fields.get("stream"), bool | None):
        raise RequestError("'stream' must be true or false", param="stream")
    return DoorRequest(
        model=model,
        tools=loaded_tools(fields.get("input"), bounds),
        messages=_read_messages(fields, bounds),
        tool_choice=_read_choice(fields.get("tool_choice")),
        stream=bool(fields.get("stream")),
        params=_read_params({name: value for name, value in fields.items() if name not in _OURS}),
    )


def _read_messages(fields: Mapping[str, Any], bounds: Bounds) -> tuple[Message, ...]:
    items, instructions = fields.get("input"), fields.get("instructions")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list) or not items:
        raise RequestError("'input' must be a string or a non-empty array of items", param="input")
    if len(items) > bounds.messages:
        message = beyond(f"'input' holds {len(items):,}", bounds.messages, "messages")
        raise RequestError(message, param="input", code="too_many_messages")
    if not isinstance(instructions, str | None):
        raise RequestError("'instructions' must be a string", param="instructions")
    check_parts(items, bounds, param="input")
    before = (Message(role="system", content=instructions),) if instructions else ()
    messages = (*before, *read_items(items))
    _check_messages(messages, bounds)
    return messages


def _check_messages(messages: Sequence[Message], bounds: Bounds) -> None:
    check_count(
        sum(len(message.content) for message in messages if isinstance(message.content, tuple)), bounds, "input"
    )
    calls = [call for each in messages for call in each.tool_calls]
    if len(calls) > bounds.calls:
        message = beyond(f"'input' holds {len(calls):,} tool calls", bounds.calls, "calls")
        raise RequestError(message, param="input", code="too_many_tool_calls")
    longest = max((len(call.name) for call in calls), default=0)
    if longest > bounds.name:
        message = beyond(f"a tool call in 'input' has a name of {longest:,} characters", bounds.name, "name")
        raise RequestError(message, param="input", code="name_too_long")


def _read_choice(choice: Any) -> Any:
    """Returns the choice in the format of chat completions, which Toolcaddie uses."""
    match choice:
        case None | str():
            return choice
        case {"type": "function" | "custom", "name": str(name)}:
            return {"type": "function", "function": {"name": internal_name(choice.get("namespace"), name)}}
        case {"type": "allowed_tools", "tools": [*tools], **rest}:
            allowed = {"mode": rest.get("mode"), "tools": [_read_choice(tool) for tool in tools]}
            return {"type": "allowed_tools", "allowed_tools": allowed}
        case dict():
            return choice
    raise RequestError("'tool_choice' must be a string or an object", param="tool_choice")


def _read_params(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters under the names of chat completions, which Toolcaddie uses. Parameters without such a name keep
    their own."""
    params = {name: value for name, value in fields.items() if name not in ("max_output_tokens", "reasoning", "text")}
    if fields.get("max_output_tokens") is not None:
        params["max_completion_tokens"] = fields["max_output_tokens"]
    nested = {name: _object(fields, name) for name in ("reasoning", "text")}
    for ours, (outer, inner) in _NESTED.items():
        value = nested[outer].pop(inner, None)
        if value is not None:
            params[ours] = _read_format(value) if inner == "format" else value
    return {**params, **{name: rest for name, rest in nested.items() if rest}}


def _object(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name)
    if not isinstance(value, dict | None):
        raise RequestError(f"'{name}' must be an object", param=name)
    return dict(value or {})


def _read_format(value: Any) -> Any:
    """Returns the format of the answer. A schema is one level lower in chat completions."""
    if not isinstance(value, dict) or value.get("type") != "json_schema":
        return value
    return {"type": "json_schema", "json_schema": {name: each for name, each in value.items() if name != "type"}}
