"""A request of the Responses API: written for a provider, read at a door."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.wire import DoorRequest, Envelope
from toolcaddie.wires.bodies import ENCODER, field_value
from toolcaddie.wires.responses.messages import Conversation, ToolForms, read_items

WHAT = "a request of the Responses API"
"""Names a request in errors."""
_ANSWER = "answer"
"""A name for a schema that has none; the wire wants one."""

_HINTS = frozenset({"seed", "prediction", "stream", "stream_options"})
"""Parameters of chat completions that are left out: a seed and a prediction are promises the provider may break anyway, and
whether to stream, and how, is said elsewhere."""
_NEUTRAL: dict[str, Any] = {
    "n": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "logprobs": False,
    "logit_bias": {},
    "modalities": ["text"],
}
"""Parameters unknown here, with the value that asks for nothing. Any other value goes out and is refused by name."""
_RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_NESTED = {
    "reasoning_effort": ("reasoning", "effort"),
    "response_format": ("text", "format"),
    "verbosity": ("text", "verbosity"),
}

_ENCRYPTED = "reasoning.encrypted_content"
_NEVER_REASON = ("gpt-3", "gpt-4", "chatgpt-4")
"""Beginnings of models that refuse to be asked for encrypted reasoning."""

_MODES = ("auto", "none", "required")
_OURS = frozenset({"model", "input", "instructions", "tools", "tool_choice", "stream"})
_STORED = ("previous_response_id", "conversation", "prompt")
"""Fields that name what a server would have stored."""


# ---------------------------------------------------------------- for a provider


def write_request(request: ModelRequest, *, model: str, stream: bool, author: str, tools: ToolForms) -> bytes:
    """Returns the body of a request. `tools` keeps translated definitions from one request to the next. Raises `RequestError`
    for what this API cannot be asked."""
    sent, held = tools.split(request)
    conversation = Conversation(author, held)
    for message in request.messages:
        conversation.take(message)
    conversation.close_turn()

    body: dict[str, Any] = {"model": model, "store": False}
    if not model.rpartition("/")[2].removeprefix("ft:").startswith(_NEVER_REASON):
        body["include"] = [_ENCRYPTED]
    body.update(_settings(request.params or {}))
    body["model"], body["input"] = model, conversation.items
    if sent:
        body["tools"] = [form for _, form in sent]
    choice = _choice(request, {name for name, _ in sent} | conversation.loaded)
    if choice is not None:
        body["tool_choice"] = choice
    if request.output_schema is not None:
        wanted = {"type": "json_schema", "name": _ANSWER, "schema": request.output_schema}
        body["text"] = {**body.get("text", {}), "format": wanted}
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key
    if stream:
        body["stream"] = True
        body.update(_stream_options(request.params or {}))
    return ENCODER.encode(body)


# ---------------------------------------------------------------- parameters


def _settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters in this API's names. One that is None asks for nothing."""
    sent: dict[str, Any] = {}
    nested: list[tuple[str, str, Any]] = []
    for name, value in params.items():
        if value is None or name in _HINTS or (name in _NEUTRAL and value == _NEUTRAL[name]):
            continue
        if name in _NESTED:
            nested.append((*_NESTED[name], value))
        else:
            sent.setdefault(_RENAMED.get(name, name), value)
    for outer, inner, value in nested:
        own = sent.get(outer, {})
        if not isinstance(own, Mapping):
            raise RequestError(f"the parameter {outer!r} must be an object, not {type(own).__name__}", param=outer)
        sent[outer] = {inner: _format(value) if inner == "format" else value, **own}
    return sent


def _format(wanted: Any) -> Any:
    """What the answer is to look like; a schema stands one level higher here than in chat completions."""
    schema = wanted.get("json_schema") if isinstance(wanted, Mapping) else None
    return {"type": "json_schema", **schema} if isinstance(schema, Mapping) else wanted


def _stream_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Without the wish for usage, which is always told here, and which this API would refuse."""
    options = params.get("stream_options")
    if not isinstance(options, Mapping):
        return {}
    kept = {name: value for name, value in options.items() if name != "include_usage"}
    return {"stream_options": kept} if kept else {}


def _choice(request: ModelRequest, known: Collection[str]) -> Any:
    """The choice, joined with the mask: all tools stay in the request, and so in the provider's cache."""
    wanted = request.tool_choice
    if not known:
        if wanted in (None, "auto", "none"):
            return None
        raise _no_choice("no tool is sent or revealed that could be called")
    if request.allowed is not None and wanted in (None, "auto", "required"):
        allowed = [{"type": "function", "name": name} for name in request.allowed if name in known]
        if not allowed:
            return "none"
        return {"type": "allowed_tools", "mode": wanted or "auto", "tools": allowed}
    if wanted is None or (isinstance(wanted, str) and wanted in _MODES):
        return wanted
    if isinstance(wanted, Mapping) and wanted.get("type") == "function":
        return {"type": "function", "name": _named(wanted, known)}
    if isinstance(wanted, Mapping) and wanted.get("type") == "allowed_tools":
        return _allowed(wanted.get("allowed_tools"), known)
    raise _no_choice(f"it is none of {', '.join(_MODES)}, a function and allowed_tools")


def _named(wanted: Any, known: Collection[str]) -> str:
    function = wanted.get("function") if isinstance(wanted, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise _no_choice("it names no function")
    if name not in known:
        raise _no_choice(f"the tool {name!r} it names is not sent, or not revealed yet")
    return name


def _allowed(wanted: Any, known: Collection[str]) -> dict[str, Any]:
    tools = wanted.get("tools") if isinstance(wanted, Mapping) else None
    if not isinstance(tools, list | tuple) or not tools or wanted.get("mode") not in ("auto", "required"):
        raise _no_choice("allowed_tools needs a mode, auto or required, and a list of tools")
    named = [{"type": "function", "name": _named(tool, known)} for tool in tools]
    return {"type": "allowed_tools", "mode": wanted["mode"], "tools": named}


def _no_choice(why: str) -> RequestError:
    return RequestError(f"tool_choice cannot be followed: {why}", param="tool_choice")


# ---------------------------------------------------------------- at a door


def declines_tools(envelope: Envelope) -> bool:
    """Returns whether the request says that no tool may be called."""
    choice = envelope.fields.get("tool_choice")
    return choice is not None and field_value(choice, what=WHAT) == "none"


def read_request(envelope: Envelope, bounds: Bounds) -> DoorRequest:
    """Returns the request without its tools, its parameters in our names. Raises `RequestError` naming the field at fault."""
    fields = {name: field_value(raw, what=WHAT) for name, raw in envelope.fields.items() if name != "tools"}
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise RequestError("you must provide a model parameter", param="model")
    for name in _STORED:
        if fields.get(name) is not None:
            raise RequestError(
                f"'{name}' names something stored, and nothing is stored here; send all of 'input'", param=name
            )
    if not isinstance(fields.get("stream"), bool | None):
        raise RequestError("'stream' must be true or false", param="stream")
    return DoorRequest(
        model=model,
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
    before = (Message(role="system", content=instructions),) if instructions else ()
    messages = (*before, *read_items(items))
    _check_messages(messages, bounds)
    return messages


def _check_messages(messages: Sequence[Message], bounds: Bounds) -> None:
    parts = sum(len(message.content) for message in messages if isinstance(message.content, tuple))
    if parts > bounds.parts:
        message = beyond(f"'input' holds {parts:,} parts of content", bounds.parts, "parts")
        raise RequestError(message, param="input", code="too_many_parts")
    calls = [call for each in messages for call in each.tool_calls]
    if len(calls) > bounds.calls:
        message = beyond(f"'input' holds {len(calls):,} tool calls", bounds.calls, "calls")
        raise RequestError(message, param="input", code="too_many_tool_calls")
    longest = max((len(call.name) for call in calls), default=0)
    if longest > bounds.name:
        message = beyond(f"a tool call in 'input' has a name of {longest:,} characters", bounds.name, "name")
        raise RequestError(message, param="input", code="name_too_long")


def _read_choice(choice: Any) -> Any:
    """Returns the choice as chat completions word it, which is ours."""
    match choice:
        case None | str():
            return choice
        case {"type": "function", "name": str(name)}:
            return {"type": "function", "function": {"name": name}}
        case {"type": "allowed_tools", "tools": [*tools], **rest}:
            allowed = {"mode": rest.get("mode"), "tools": [_read_choice(tool) for tool in tools]}
            return {"type": "allowed_tools", "allowed_tools": allowed}
        case dict():
            return choice
    raise RequestError("'tool_choice' must be a string or an object", param="tool_choice")


def _read_params(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns parameters by the names of chat completions, which are ours. What has none there keeps its own."""
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
    """Returns what the answer is to look like; a schema stands one level lower in chat completions."""
    if not isinstance(value, dict) or value.get("type") != "json_schema":
        return value
    return {"type": "json_schema", "json_schema": {name: each for name, each in value.items() if name != "type"}}
