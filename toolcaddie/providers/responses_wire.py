"""Our words as OpenAI's Responses API takes them. Pure: no I/O. Answers are read in `responses_reply`.

The provider stores nothing of what passes here: every request holds its conversation whole. Items of an earlier answer go
back as they came, but without their ids. Those name what the provider would have stored; some servers look them up all the
same and refuse the request when they find nothing, and none needs them, because reasoning carries its own encrypted text.

Definitions that are held back (`ModelRequest.deferred`) are not among `tools` at all: here the model would be shown name and
description of each. Where a message reveals some, an item `additional_tools` follows it with the whole definitions. So the
beginning of the conversation, which the provider's cache knows, stays as it was.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.content import Block, Image, Other, Refusal, Resource, Text, block_kind, data_url, placeholder
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message, ModelRequest, is_empty_note
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.wires.bodies import ENCODER

FUNCTION_CALL, MESSAGE, REASONING = "function_call", "message", "reasoning"
"""Types of items that both directions know."""

_MAX_CALL_ID = 64
_MAX_NAME = 128
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_KEPT_TOOLS = 8192
_ANSWER = "answer"
"""A name for a schema that has none; the wire wants one."""
_NO_PARAMETERS = {"type": "object", "properties": {}}
_INTERRUPTED = "There is no result: the call was interrupted before it had one."

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
_INPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})
_NESTING = frozenset({"image_url", "file"})
"""Fields of chat completions' parts that hold others."""


def request_body(
    request: ModelRequest, *, model: str, stream: bool, author: str = "", tools: ToolForms | None = None
) -> bytes:
    """The body of a request. `author`: who is asked, as `Message.author` says it. `tools` keeps translated definitions from
    one request to the next. Raises `RequestError` for what this API cannot be asked."""
    forms = tools or ToolForms()
    sent, held = forms.split(request)
    conversation = _Input(author, held)
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


# ---------------------------------------------------------------- tools


class ToolForms:
    """Definitions in chat completions' form, in this API's. Those that come encoded are translated once: they cannot change.

    Raises `RequestError` for a definition this API has no form for.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[msgspec.Raw, tuple[str, Any]]] = {}
        """By identity, with the original, so that no other object can come by the same one."""

    def split(self, request: ModelRequest) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
        """Names and forms of the tools that are sent, and the forms of those held back, by name."""
        forms = [self._form(definition) for definition in request.tools]
        if not request.deferred:
            return forms, {}
        sent = [form for form in forms if form[0] not in request.deferred]
        return sent, {name: form for name, form in forms if name in request.deferred}

    def _form(self, definition: Any) -> tuple[str, Any]:
        if not isinstance(definition, msgspec.Raw):
            return _flat(definition)
        kept = self._kept.get(id(definition))
        if kept is None:
            if len(self._kept) >= _KEPT_TOOLS:
                self._kept.clear()
            name, form = _flat(msgspec.json.decode(definition))
            kept = self._kept[id(definition)] = (definition, (name, msgspec.Raw(ENCODER.encode(form))))
        return kept[1]


def _flat(definition: JsonObject) -> tuple[str, Any]:
    """Name and form of one definition. A tool of the provider's own has no name, and goes out as it is."""
    kind = definition.get("type")
    if kind == "custom":
        raise RequestError("tools of type 'custom' cannot be sent to the Responses API from here", param="tools")
    if kind != "function":
        return "", definition
    function = definition.get("function", definition)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError("a tool of type 'function' has no name", param="tools")
    form = {
        "type": "function",
        **function,
        "parameters": function.get("parameters") or _NO_PARAMETERS,
        # Left out, it would mean true wherever the schema allows it, and the model would be held to write every argument.
        "strict": function.get("strict") or False,
    }
    return function["name"], form


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


# ---------------------------------------------------------------- messages


class _Input:
    """A conversation as items, put together message by message. Every call has exactly one result behind it."""

    def __init__(self, author: str, held: Mapping[str, Any]) -> None:
        self.items: list[Any] = []
        self.loaded: set[str] = set()
        """Held-back tools that some result made known."""
        self._author = author
        self._held = held
        self._revealed: list[str] = []
        self._used: set[str] = set()
        self._open: dict[str, list[str]] = {}
        """Of the last answer: calls without a result, by the id our side knows, with the one sent."""

    def take(self, message: Message) -> None:
        if message.role == "tool":
            self._result(message)
            return
        self.close_turn()
        if message.role == "assistant":
            self._answer(message)
        elif message.role in ("system", "developer", "user"):
            self._say(message)
        else:
            raise RequestError(
                f"messages of the role {message.role!r} have no place in the Responses API", param="messages"
            )

    def close_turn(self) -> None:
        """The results of a turn are all there: say so of calls that have none, and show what was revealed."""
        for ids in self._open.values():
            self.items.extend(_output(call_id, _INTERRUPTED) for call_id in ids)
        self._open.clear()
        self._reveal(self._revealed)
        self._revealed.clear()

    def _reveal(self, names: Sequence[str]) -> None:
        new = [name for name in dict.fromkeys(names) if name in self._held and name not in self.loaded]
        if new:
            self.loaded.update(new)
            definitions = [self._held[name] for name in new]
            self.items.append({"type": "additional_tools", "role": "developer", "tools": definitions})

    def _say(self, message: Message) -> None:
        """What nobody answers to; a name of who speaks has no place here. One without words may be there to reveal only."""
        if not is_empty_note(message):
            self.items.append({"role": message.role, "content": _content(message)})
        self._reveal(message.revealed)

    def _result(self, message: Message) -> None:
        ids = self._open.get(message.tool_call_id or "")
        if not ids:
            raise RequestError(
                f"a result answers the call {message.tool_call_id!r}, which the answer before it did not make",
                param="messages",
            )
        self.items.append(_output(ids.pop(0), _content(message)))
        self._revealed.extend(message.revealed)

    def _answer(self, message: Message) -> None:
        ids = [self._opened(call.id) for call in message.tool_calls]
        own = message.native if message.author == self._author else ()
        if own and sum(block.get("type") == FUNCTION_CALL for block in own) == len(ids):
            self.items.extend(_returned(own, ids))
            return
        words = _words(message)
        if words:
            self.items.append({"role": "assistant", "content": words})
        self.items.extend(map(_call, message.tool_calls, ids))

    def _opened(self, given: str) -> str:
        """The id a call is sent with: its own, unless that is too long, or was used before."""
        call_id = given if 0 < len(given) <= _MAX_CALL_ID else f"call_{hashlib.sha256(given.encode()).hexdigest()[:32]}"
        free, count = call_id, 1
        while free in self._used:
            count += 1
            free = f"{call_id[: _MAX_CALL_ID - 8]}_{count}"
        self._used.add(free)
        self._open.setdefault(given, []).append(free)
        return free


def _returned(native: Sequence[JsonObject], ids: Sequence[str]) -> list[dict[str, Any]]:
    """An answer's own items, in order, fit to be sent: without ids, and without nulls, which some servers refuse to read
    again."""
    left = iter(ids)
    items: list[dict[str, Any]] = []
    for block in native:
        kind = block.get("type")
        item = {name: value for name, value in block.items() if value is not None}
        if kind == FUNCTION_CALL:
            item["call_id"] = next(left)
        elif kind == REASONING and not item.get("encrypted_content"):
            if item.get("content"):  # in the open, as servers of one's own have it; these know no ids, but read one
                items.append(item)
            continue
        elif kind == MESSAGE and not item.get("content"):
            continue
        elif kind not in (MESSAGE, REASONING):
            items.append(item)
            continue
        item.pop("id", None)
        items.append(item)
    while items and items[-1]["type"] == REASONING:  # thought that led to nothing is refused
        items.pop()
    return items


def _call(call: ToolCall, call_id: str) -> dict[str, Any]:
    arguments = call.arguments or "{}"
    if call.extra and "type" in call.extra:  # of a kind only chat completions know: its input is no JSON
        arguments = ENCODER.encode({"input": call.arguments}).decode()
    name = _NO_NAME.sub("_", call.name)[:_MAX_NAME] or "_"
    return {"type": FUNCTION_CALL, "call_id": call_id, "name": name, "arguments": arguments}


def _output(call_id: str, output: str | list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _words(message: Message) -> str:
    """What an answer of another author said; all that can be told of it."""
    blocks = message.content if isinstance(message.content, tuple) else ()
    for block in blocks:
        if not isinstance(block, Text | Refusal):
            raise _no_part(block, message)
    said = [message.text, *(block.text for block in blocks if isinstance(block, Refusal))]
    if message.extra and isinstance(message.extra.get("refusal"), str):
        said.append(message.extra["refusal"])
    return "\n".join(filter(None, said))


def _content(message: Message) -> str | list[dict[str, Any]]:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    return [_part(block, message) for block in message.content]


def _part(block: Block, message: Message) -> dict[str, Any]:
    part = _written(block)
    if part is None and message.role == "tool" and not isinstance(block, Other):
        part = {"type": "input_text", "text": placeholder(block)}
    if part is None:
        raise _no_part(block, message)
    return {**part, **_beside(block)}


def _written(block: Block) -> dict[str, Any] | None:
    """The part of a block; None: this API has none."""
    match block:
        case Text():
            return {"type": "input_text", "text": block.text}
        case Image(data=data, url=url, file_id=file_id) if data or url or file_id:
            address = data_url(block.mime_type, data) if data else url
            where = {"image_url": address} if address else {"file_id": file_id}
            return {"type": "input_image", **where, "detail": block.detail or "auto"}
        case Resource():
            return _file(block)
        case Other(part=part) if block_kind(block) in _INPUT_PARTS:
            return dict(part)
        case _:
            return None


def _file(block: Resource) -> dict[str, Any] | None:
    if block.text is not None:
        return {"type": "input_text", "text": block.text}
    fields = {
        "filename": block.name,
        "file_data": data_url(block.mime_type, block.data) if block.data else "",
        "file_id": block.file_id,
        "file_url": block.uri if block.uri.startswith(("https://", "http://")) and not block.data else "",
    }
    sent = {name: value for name, value in fields.items() if value}
    return {"type": "input_file", **sent} if sent.keys() - {"filename"} else None


def _beside(block: Block) -> JsonObject:
    """Fields that came with the part by this wire, or by its elder, which has many of the same."""
    extra = block.extra if block.wire in ("chat", "responses") else None
    return {name: value for name, value in (extra or {}).items() if name not in _NESTING}


def _no_part(block: Block, message: Message) -> RequestError:
    return RequestError(
        f"content of type {block_kind(block)!r} in a message of the role {message.role!r} has no place in the Responses API",
        param="messages",
    )
