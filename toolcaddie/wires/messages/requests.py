"""A request of the Messages API: written for a provider, read at a door.

Door: the side where clients send requests to us. Provider: the side where we send requests to a model server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import DoorRequest, Envelope
from toolcaddie.wires.bodies import ENCODER, field_value
from toolcaddie.wires.checks import check_messages, check_parts
from toolcaddie.wires.messages.content import Block
from toolcaddie.wires.messages.messages import THINKING, Conversation, conversation, read_conversation
from toolcaddie.wires.messages.schemas import output_schema
from toolcaddie.wires.messages.tools import Choice, WireTool, WireTools, quoted, read_choice, write_array
from toolcaddie.wires.neutral import is_neutral

WHAT = "a messages request"
"""Name of a request in error messages."""
_OURS = frozenset({"model", "messages", "system", "tools", "tool_choice", "stream"})
_ADDITIONS = "mid-conversation-tool-changes-2026-07-01"
"""Name of the API's beta feature for tools that are added between messages."""
_EPHEMERAL = {"type": "ephemeral"}

_MEANINGLESS = frozenset(
    {
        *("stream", "stream_options"),  # streaming is set separately, and usage is always reported
        *("store", "prediction", "seed", "verbosity"),  # hints that the API does not know and an answer does not need
        *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),  # its cache is controlled by marks
        "parallel_tool_calls",  # part of `tool_choice`
    }
)
"""Parameters of chat completions that are omitted. Parameters that are neither here nor in `_TRANSLATIONS` are sent unchanged:
they may be the API's own; if not, the API names them in its error."""


def write_request(
    request: ModelRequest,
    *,
    model: str,
    stream: bool,
    author: str,
    tools: WireTools,
    max_tokens: int,
    mid_system: bool = False,
) -> tuple[bytes, tuple[str, ...]]:
    """Returns the body of a request, and the beta features of the API that it needs.

    `author`: the provider and model, as in `Message.author`. `max_tokens`: the limit for a request without one. The API has no
    mask, so tools that may not be called are not sent.

    Raises `RequestError` naming a field that the API cannot express.
    """
    choice = Choice.of(request)
    sent_tools = [tool for tool in map(tools.of, request.tools) if choice.only is None or tool.name in choice.only]
    deferrable = {tool.name for tool in sent_tools if tool.name in request.deferred}
    written = conversation(request.messages, author=author, mid_system=mid_system, deferred=deferrable)
    deferred = deferrable - written.revealed_early
    body: dict[str, Any] = {"model": model, "messages": written.messages}
    if written.system:
        body["system"] = written.system
    _take_params(body, request.params or {})
    body.setdefault("max_tokens", max_tokens)
    if request.output_schema is not None:
        _output(body, format=_format(request.output_schema))
    marks = request.cache and not _is_marked(body, sent_tools)
    if sent_tools:
        if len(deferred) == len(sent_tools):
            raise RequestError(
                "every tool is deferred; this provider requires at least one that is not", param="deferred"
            )
        body["tools"] = write_array(sent_tools, deferred, marks=marks)
        if choice.wire is not None:
            body["tool_choice"] = choice.wire
    if marks:
        _mark_prefix(written)
    _disable_impossible_thinking(body)
    if stream:
        body["stream"] = True
    return ENCODER.encode(body), (_ADDITIONS,) if written.adds else ()


# ---------------------------------------------------------------- parameters


def _take_params(body: Block, params: Mapping[str, Any]) -> None:
    for name, value in params.items():
        if name in _MEANINGLESS or is_neutral(name, value):
            continue
        translate = _TRANSLATIONS.get(name)
        if translate is None:
            body.setdefault(name, value)
        else:
            translate(body, value)


def _take_max_tokens(body: Block, value: Any) -> None:
    body["max_tokens"] = value


def _take_stop(body: Block, value: Any) -> None:
    body["stop_sequences"] = [value] if isinstance(value, str) else value


def _take_user(body: Block, value: Any) -> None:
    body.setdefault("metadata", {"user_id": value})


def _take_metadata(body: Block, value: Any) -> None:
    """Takes the user from the labels of a request. The other labels are dropped, because this API has a place only for the
    user."""
    if isinstance(value, Mapping) and "user_id" in value:
        body["metadata"] = {"user_id": value["user_id"]}


def _take_count(body: Block, value: Any) -> None:
    """Checks the number of answers, `n`: this API gives only one, so there is no field to write."""
    if value != 1:
        raise RequestError(f"n: this provider gives one answer to a request, not {quoted(value)}", param="n")


def _take_effort(body: Block, value: Any) -> None:
    if value == "none":
        body.setdefault("thinking", {"type": "disabled"})
    else:
        _output(body, effort="low" if value == "minimal" else value)


def _take_format(body: Block, value: Any) -> None:
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "text":
        return
    inside = value.get("json_schema") if kind == "json_schema" else None
    schema = inside.get("schema") if isinstance(inside, Mapping) else None
    if not isinstance(schema, Mapping):
        raise RequestError(
            f"response_format: this provider supports text, and JSON with a schema, not {quoted(value)}",
            param="response_format",
        )
    _output(body, format=_format(schema))


def _take_output(body: Block, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise RequestError("output_config: must be an object", param="output_config")
    body["output_config"] = {**value, **body.get("output_config", {})}


_TRANSLATIONS: dict[str, Callable[[Block, Any], None]] = {
    "max_tokens": _take_max_tokens,
    "max_completion_tokens": _take_max_tokens,
    "metadata": _take_metadata,
    "n": _take_count,
    "output_config": _take_output,
    "reasoning_effort": _take_effort,
    "response_format": _take_format,
    "safety_identifier": _take_user,
    "stop": _take_stop,
    "user": _take_user,
}
"""Parameters of chat completions that the API expresses differently."""


def _format(schema: JsonObject) -> Block:
    return {"type": "json_schema", "schema": output_schema(schema)}


def _output(body: Block, **more: Any) -> None:
    body["output_config"] = {**body.get("output_config", {}), **more}


def _disable_impossible_thinking(body: Block) -> None:
    """Disables thinking where the API would refuse it. With a thinking budget, an answer whose calls were just answered must
    begin with thinking. If another model wrote the answer, the API accepts no thinking in it, so the rest of the turn runs
    without."""
    thinking = body.get("thinking")
    if not isinstance(thinking, Mapping) or thinking.get("type") != "enabled":
        return
    last = next((message for message in reversed(body["messages"]) if message["role"] == "assistant"), None)
    if last is None or last["content"][0]["type"] in THINKING:
        return
    if any(block["type"] == "tool_use" for block in last["content"]):
        body["thinking"] = {"type": "disabled"}


# ---------------------------------------------------------------- the prompt cache


def _is_marked(body: Block, tools: Sequence[WireTool]) -> bool:
    """Returns True if the caller set marks itself. These marks are kept and no others are added, because only
    four are allowed."""
    if "cache_control" in body or any("cache_control" in tool.keys for tool in tools):
        return True
    blocks = [*body.get("system", ()), *(block for message in body["messages"] for block in message["content"])]
    return any(map(_has_mark, blocks))


def _has_mark(block: Block) -> bool:
    inside = block.get("content")
    return "cache_control" in block or (isinstance(inside, list) and any("cache_control" in part for part in inside))


def _mark_prefix(written: Conversation) -> None:
    """Marks the end of the system text and of the last two user's turns. With the mark of the tools, these are at most four
    marks.

    A marked prefix is written to the cache, and a later request finds it if at most 20 blocks follow it. The mark of the
    previous turn is at the end of the last request, so its prefix is found however many calls were made since.
    """
    if written.system:
        written.system[-1] = {**written.system[-1], "cache_control": _EPHEMERAL}
    turns = [message for message in written.messages if message["role"] == "user"]
    for turn in turns[-2:]:
        turn["content"][-1] = {**turn["content"][-1], "cache_control": _EPHEMERAL}


# ---------------------------------------------------------------- at a door


def declines_tools(envelope: Envelope) -> bool:
    """Returns True if the request forbids tool calls."""
    raw = envelope.fields.get("tool_choice")
    choice = None if raw is None else field_value(raw, what=WHAT)
    return isinstance(choice, Mapping) and choice.get("type") == "none"


def read_request(envelope: Envelope, bounds: Bounds) -> DoorRequest:
    """Returns the request without its tools. Raises `RequestError` naming the field at fault."""
    fields = {name: field_value(raw, what=WHAT) for name, raw in envelope.fields.items() if name != "tools"}
    model, messages = fields.get("model"), fields.get("messages")
    if not isinstance(model, str) or not model:
        raise RequestError("model: must name a model", param="model")
    if not isinstance(messages, list) or not messages:
        raise RequestError("messages: must be a list of at least one message", param="messages")
    if len(messages) > bounds.messages:
        message = beyond(f"'messages' holds {len(messages):,}", bounds.messages, "messages")
        raise RequestError(message, param="messages", code="too_many_messages")
    if not isinstance(fields.get("stream", False), bool):
        raise RequestError("stream: must be true or false", param="stream")
    check_parts(messages, bounds)
    read = read_conversation(fields.get("system"), messages)
    check_messages(read, bounds)
    choice = fields.get("tool_choice")
    return DoorRequest(
        model=model,
        messages=read,
        tool_choice=None if choice is None else read_choice(choice),
        stream=bool(fields.get("stream")),
        params=_read_params(fields),
    )


def _read_params(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters under the names of chat completions, which Toolcaddie uses. Parameters without such a name keep
    their own."""
    params = {name: value for name, value in fields.items() if name not in _OURS and value is not None}
    choice, output = fields.get("tool_choice"), params.pop("output_config", None)
    if "stop_sequences" in params:
        params["stop"] = params.pop("stop_sequences")
    if isinstance(choice, Mapping) and choice.get("disable_parallel_tool_use") is True:
        params["parallel_tool_calls"] = False
    match params.get("metadata"):
        case {"user_id": str(user), **rest} if not rest:
            del params["metadata"]
            params["user"] = user
    if isinstance(output, Mapping):
        params.update(_read_output(output))
    elif output is not None:
        raise RequestError("output_config: must be an object", param="output_config")
    return params


def _read_output(config: Mapping[str, Any]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    rest = dict(config)
    if isinstance(config.get("effort"), str):
        params["reasoning_effort"] = rest.pop("effort")
    match config.get("format"):
        case {"type": "json_schema", "schema": dict(schema), **beside} if not beside:
            del rest["format"]
            params["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    return {**params, "output_config": rest} if rest else params
