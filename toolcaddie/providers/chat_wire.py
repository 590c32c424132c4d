"""The chat-completions format and our words, translated both ways. Pure: no I/O, and wire names stand nowhere else.

What is not known goes through: unknown fields of messages and calls ride in `extra`, content parts stay as they are.

A call of another kind than a function (OpenAI's custom tools) rides in `extra` whole, with its `type`. Its `arguments` are for
readers only: the input as the model wrote it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from toolcaddie.core.errors import ProviderProtocolError, RequestError
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest, Usage, is_empty_note
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.providers.http import ENCODER, count, decoded
from toolcaddie.util.replacing import replace

_MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id"})
_CALL_FIELDS = frozenset({"index", "id", "type", "function"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})
_FUNCTION, _CUSTOM = "function", "custom"
_DONE = b"[DONE]"
_ANSWER = "answer"
"""A name for a schema that has none; the wire wants one."""
_LONGEST_ID = 40
_DIGITS = 32
_WHOLE = frozenset({"id", "type", "name"})
"""Texts that never come in pieces, but may come again with each."""


# ---------------------------------------------------------------- out


def request_body(request: ModelRequest, *, model: str, stream: bool, usage: bool = False, author: str = "") -> bytes:
    """The body of a request. `usage`: ask a stream for its usage, whatever the caller asked. `author`: who is asked, as
    `Message.author` says it.

    `tools` may hold definitions or `msgspec.Raw`, already encoded ones, which are copied as they are.
    """
    messages = [
        message_to_wire(known_to(message, author))
        for message in _with_fitting_ids(request.messages, author)
        if not is_empty_note(message)  # it may only make tools known, for a wire that can say so
    ]
    body: dict[str, Any] = {"model": model, "messages": messages}
    if request.tools:
        body["tools"] = list(request.tools)
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
        body.pop("stream_options", None)  # refused where nothing is streamed
        return ENCODER.encode(body)
    body["stream"] = True
    if usage:
        options = body.get("stream_options") or {}
        if not isinstance(options, Mapping):
            raise RequestError("'stream_options' must be an object", param="stream_options")
        body["stream_options"] = {**options, "include_usage": True}
    return ENCODER.encode(body)


def _choice(request: ModelRequest) -> Any:
    """The choice, joined with the mask: all tools stay in the request, and so in the provider's cache."""
    if request.allowed is None or not request.tools or request.tool_choice not in (None, "auto", "required"):
        return request.tool_choice
    tools = [{"type": _FUNCTION, _FUNCTION: {"name": name}} for name in request.allowed]
    return {"type": "allowed_tools", "allowed_tools": {"mode": request.tool_choice or "auto", "tools": tools}}


def asks_for_usage(request: ModelRequest) -> bool:
    """Whether the caller itself asked for the usage of a stream."""
    options = (request.params or {}).get("stream_options")
    return isinstance(options, Mapping) and options.get("include_usage") is True


def known_to(message: Message, author: str) -> Message:
    """The message without what another provider put into it: this one would refuse fields it never wrote."""
    if not message.author or message.author == author:
        return message
    calls = tuple(
        call if call.extra and "type" in call.extra else replace(call, extra=None) for call in message.tool_calls
    )
    return replace(message, tool_calls=calls, extra=None)


def _with_fitting_ids(messages: Sequence[Message], author: str) -> Sequence[Message]:
    """Calls of other providers under ids that this wire takes, and their results with them. The caller's own ids stay: many a
    server takes longer ones, and says so itself if not."""
    fitting = {
        call.id: f"call_{hashlib.sha256(call.id.encode()).hexdigest()[:_DIGITS]}"
        for message in messages
        if message.author and message.author != author
        for call in message.tool_calls
        if len(call.id) > _LONGEST_ID
    }
    return [_renamed(message, fitting) for message in messages] if fitting else messages


def _renamed(message: Message, names: Mapping[str, str]) -> Message:
    calls = tuple(replace(call, id=names.get(call.id, call.id)) for call in message.tool_calls)
    answered = message.tool_call_id
    return replace(message, tool_calls=calls, tool_call_id=None if answered is None else names.get(answered, answered))


def message_to_wire(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["tool_calls"] = [call_to_wire(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return {**message.extra, **wire} if message.extra else wire


def call_to_wire(call: ToolCall) -> dict[str, Any]:
    if call.extra and "type" in call.extra:
        return {"id": call.id, **call.extra}
    function: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    wire: dict[str, Any] = {"id": call.id, "type": "function", "function": function}
    if call.extra:
        nested = call.extra.get("function")
        return {**call.extra, **wire, "function": {**nested, **function} if nested else function}
    return wire


# ---------------------------------------------------------------- in


class _Function(msgspec.Struct):
    name: str
    arguments: str | None = None


class _Call(msgspec.Struct):
    function: _Function | None = None
    id: str | None = None


class _Message(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _CachedTokens(msgspec.Struct):
    cached_tokens: int | None = None


class _ReasoningTokens(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None
    completion_tokens_details: _ReasoningTokens | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    model: str | None = None


class _FunctionPiece(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


_NOTHING = _FunctionPiece()


class _CallPiece(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _FunctionPiece | None = None


class _Delta(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_CallPiece] | None = None


class _ChunkChoice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: int | None = 0


class _Chunk(msgspec.Struct):
    choices: list[_ChunkChoice] | None = None
    usage: _Usage | None = None
    model: str | None = None


_Shape = TypeVar("_Shape")


def _shaped(raw: JsonObject, shape: type[_Shape], who: str) -> _Shape:
    try:
        return msgspec.convert(raw, shape)
    except msgspec.ValidationError as error:
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error}", body=ENCODER.encode(raw)) from error


def reply_from_wire(body: bytes, *, who: str, author: str = "") -> ModelReply:
    """A whole answer of `author`. `raw` is the decoded body."""
    raw = decoded(body, who=who)
    answer = _shaped(raw, _Completion, who)
    if not answer.choices:
        raise ProviderProtocolError(f"{who} answered without a choice", body=body)
    choice = answer.choices[0]
    wire = raw["choices"][0]["message"]
    calls = tuple(
        _whole_call(call, wire["tool_calls"][position], who)
        for position, call in enumerate(choice.message.tool_calls or ())
    )
    return ModelReply(
        message=Message(
            role="assistant",
            content=_content(choice.message.content),
            tool_calls=calls,
            extra=_message_extra(wire),
            author=author,
        ),
        finish_reason=choice.finish_reason or _finish_of(calls),
        usage=_usage(answer.usage),
        model=answer.model or "",
        raw=raw,
    )


def _whole_call(call: _Call, wire: JsonObject, who: str) -> ToolCall:
    call_id = call.id or _new_call_id()
    if call.function is not None:
        return ToolCall(
            id=call_id,
            name=call.function.name,
            arguments=call.function.arguments or "{}",
            extra=_call_extra(wire),
        )
    kind = _kind_of(wire)
    if kind == _FUNCTION:
        raise ProviderProtocolError(
            f"{who} answered in an unknown shape: a tool call without a function", body=ENCODER.encode(wire)
        )
    name, text = _named(wire, kind)
    extra = {name: value for name, value in wire.items() if value is not None and name not in ("id", "index")}
    return ToolCall(id=call_id, name=name or kind, arguments=text, extra={**extra, "type": kind})


def _kind_of(wire: JsonObject) -> str:
    """What is called: a function, or whatever the call (or this piece of it) says; later pieces often leave `type` out."""
    if wire.get(_FUNCTION) is not None:
        return _FUNCTION
    said = wire.get("type")
    if said and isinstance(said, str):
        return said
    return _CUSTOM if isinstance(wire.get(_CUSTOM), dict) else _FUNCTION


def _named(wire: JsonObject, kind: str) -> tuple[str, str]:
    """Name and input of a call that is no function, as far as they are there."""
    inside = wire.get(kind)
    if not isinstance(inside, dict):
        return "", ""
    name, text = inside.get("name"), inside.get("input")
    return name if isinstance(name, str) else "", text if isinstance(text, str) else ""


def _content(content: Any) -> str | tuple[JsonObject, ...] | None:
    return tuple(content) if isinstance(content, list) else content


def _message_extra(wire: Mapping[str, Any]) -> JsonObject | None:
    """Fields of an answer we do not know. Nulls are left behind: they say nothing, and some servers refuse their echo."""
    return {k: v for k, v in wire.items() if v is not None and k not in _MESSAGE_FIELDS} or None


def _call_extra(wire: Mapping[str, Any]) -> JsonObject | None:
    extra = {name: value for name, value in wire.items() if name not in _CALL_FIELDS}
    nested = {k: v for k, v in (wire.get(_FUNCTION) or {}).items() if k not in _FUNCTION_FIELDS}
    if nested:
        extra[_FUNCTION] = nested
    return extra or None


def _usage(wire: _Usage | None) -> Usage:
    if wire is None:
        return Usage()
    cached = wire.prompt_tokens_details.cached_tokens if wire.prompt_tokens_details else None
    reasoning = wire.completion_tokens_details.reasoning_tokens if wire.completion_tokens_details else None
    return Usage(
        input_tokens=count(wire.prompt_tokens),
        output_tokens=count(wire.completion_tokens),
        cached_tokens=count(cached),
        reasoning_tokens=count(reasoning),
    )


def _finish_of(calls: Sequence[ToolCall]) -> str:
    return "tool_calls" if calls else "stop"


def _new_call_id() -> str:
    """For servers that send none: a result must say which call it answers."""
    return f"call_{uuid.uuid4().hex[:24]}"


# ---------------------------------------------------------------- in, piece by piece


@dataclass(slots=True)
class _GatheredCall:
    id: str
    name: str
    kind: str
    texts: list[str] = field(default_factory=list)
    """Pieces of the arguments, or of a custom tool's input."""
    extra: JsonObject = field(default_factory=dict)

    def take(self, text: str, kind: str, extra: JsonObject | None) -> None:
        self.texts.append(text)
        if extra is None:
            return
        if text and kind != _FUNCTION:  # the input stands in `texts`: it may be long, and is joined once
            extra = {**extra, kind: {**extra[kind], "input": ""}}
        self.extra = _grown(self.extra, extra)

    def whole(self) -> ToolCall:
        text = "".join(self.texts)
        if self.kind == _FUNCTION:
            return ToolCall(id=self.id, name=self.name, arguments=text or "{}", extra=self.extra or None)
        inside = self.extra.get(self.kind)
        extra = {"type": self.kind, **self.extra}
        if isinstance(inside, dict) and "input" in inside:
            extra[self.kind] = {**inside, "input": text}
        return ToolCall(id=self.id, name=self.name, arguments=text, extra=extra)


def _grown(earlier: JsonObject, new: JsonObject) -> JsonObject:
    """What came before with a piece more: texts and lists are joined, objects grow by field, anything else is last-wins."""
    grown = dict(earlier)
    for name, value in new.items():
        before = grown.get(name)
        texts = isinstance(value, str) and isinstance(before, str) and name not in _WHOLE
        if texts or (isinstance(value, list) and isinstance(before, list)):
            grown[name] = before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            grown[name] = _grown(before, value)
        elif value is not None:
            grown[name] = value
    return grown


class Gathering:
    """A streamed answer while it comes in: every chunk gives a delta, and in the end they make one reply.

    Servers differ in how they number the pieces of calls, so they are numbered anew here: a piece opens a call when it
    carries an id or a name that the call at its index does not have, and otherwise continues one.
    """

    def __init__(self, *, who: str, show_usage: bool, author: str = "") -> None:
        self.done = False
        """[DONE] has come, or an end that may stand for it."""
        self._who = who
        self._author = author
        self._show_usage = show_usage
        self._head: dict[str, Any] = {}
        self._message: JsonObject = {}
        self._text: list[str] = []
        self._parts: list[JsonObject] = []
        self._calls: list[_GatheredCall] = []
        self._by_index: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self._finish_reason: str | None = None
        self._usage: _Usage | None = None
        self._raw_usage: JsonObject | None = None
        self._answered = False

    def add(self, data: bytes) -> ModelDelta | None:
        """Take in an event; None: nothing of it is for the caller ([DONE], or the usage we asked for on our own account)."""
        if data == _DONE:
            self.done = True
        if self.done:
            return None
        raw = decoded(data, who=self._who)
        chunk = _shaped(raw, _Chunk, self._who)
        if chunk.usage is not None:
            self._usage, self._raw_usage = chunk.usage, raw["usage"]
        self._head = {**self._head, **{k: v for k, v in raw.items() if v is not None and k not in ("choices", "usage")}}
        if not self._show_usage:
            usage = raw.pop("usage", None)
            if usage is not None and not chunk.choices:
                return None
        text: list[str] = []
        calls: list[CallDelta] = []
        for position, choice in enumerate(chunk.choices or ()):
            if not choice.index:  # of several choices the first is the answer; the others are in `raw`
                self._take(choice, raw["choices"][position], text, calls)
        return ModelDelta(text="".join(text), calls=tuple(calls), raw=raw)

    def end(self) -> None:
        """The body has ended. Some servers leave [DONE] out, which is well once there was a reason to finish.

        Raises `ProviderProtocolError` when the stream was cut before.
        """
        if not self.done and self._finish_reason is None:
            raise ProviderProtocolError(f"{self._who} cut its stream before the answer was finished")
        self.done = True

    def _take(self, choice: _ChunkChoice, wire: JsonObject, text: list[str], calls: list[CallDelta]) -> None:
        self._answered = True
        if choice.finish_reason is not None:
            self._finish_reason = choice.finish_reason
        delta = choice.delta
        if delta is None:
            return
        if isinstance(delta.content, str):
            text.append(delta.content)
            self._text.append(delta.content)
        elif delta.content:
            self._parts.extend(delta.content)
        for position, piece in enumerate(delta.tool_calls or ()):
            found = self._piece(piece, wire["delta"]["tool_calls"][position])
            if found is not None:
                calls.append(found)
        unknown = _message_extra(wire["delta"])
        if unknown is not None:  # reasoning, refusals
            self._message = _grown(self._message, unknown)

    def _piece(self, piece: _CallPiece, wire: JsonObject) -> CallDelta | None:
        """None: of a call that is no function. Such a one is known when it is whole, and comes with the reply."""
        kind = _kind_of(wire)
        function = piece.function or _NOTHING
        name, text = (function.name, function.arguments or "") if kind == _FUNCTION else _named(wire, kind)
        index = self._index_of(piece, name)
        opens = index == len(self._calls)
        if opens:
            self._calls.append(self._opened(piece, kind, name))
            self._by_id.setdefault(self._calls[index].id, index)
        call = self._calls[index]
        extra = _call_extra(wire)
        call.take(text, kind, extra)
        if call.kind != _FUNCTION:
            return None
        if opens:
            return CallDelta(index=index, id=call.id, name=name, arguments=text, extra=extra)
        return CallDelta(index=index, arguments=text, extra=extra)

    def _opened(self, piece: _CallPiece, kind: str, name: str | None) -> _GatheredCall:
        if not name and kind == _FUNCTION:
            raise ProviderProtocolError(f"{self._who} began a tool call without saying which tool")
        return _GatheredCall(id=piece.id or _new_call_id(), name=name or kind, kind=kind)

    def _index_of(self, piece: _CallPiece, name: str | None) -> int:
        """Our number of the call this piece belongs to; the next free one: it opens a call."""
        free = len(self._calls)
        ours = self._unnumbered(piece, name) if piece.index is None else self._by_index.get(piece.index, free)
        if ours < free and self._is_another(self._calls[ours], piece.id, name):
            ours = free
        if piece.index is not None:
            self._by_index[piece.index] = ours
        return ours

    def _unnumbered(self, piece: _CallPiece, name: str | None) -> int:
        """A piece without index: of the call with its id, or a new one if it names a tool, or of the last."""
        if piece.id and piece.id in self._by_id:
            return self._by_id[piece.id]
        return len(self._calls) if name else max(0, len(self._calls) - 1)

    @staticmethod
    def _is_another(call: _GatheredCall, call_id: str | None, name: str | None) -> bool:
        """Whether a piece with a name opens a second call under a number already used. Without one it never does: some
        servers make up a new id for every piece."""
        return bool(name) and (name != call.name or (bool(call_id) and call_id != call.id))

    def reply(self) -> ModelReply:
        """The whole answer. Raises `ProviderProtocolError` if none came."""
        if not self._answered:
            raise ProviderProtocolError(f"{self._who} streamed no choice")
        calls = tuple(call.whole() for call in self._calls)
        message = Message(
            role="assistant",
            content=self._content(),
            tool_calls=calls,
            extra=self._message or None,
            author=self._author,
        )
        finish = self._finish_reason or _finish_of(calls)
        return ModelReply(
            message=message,
            finish_reason=finish,
            usage=_usage(self._usage),
            model=str(self._head.get("model", "")),
            raw={
                **self._head,
                "object": "chat.completion",
                "choices": [{"index": 0, "message": message_to_wire(message), "finish_reason": finish}],
                "usage": self._raw_usage,
            },
        )

    def _content(self) -> str | tuple[JsonObject, ...] | None:
        text = "".join(self._text)
        if not self._parts:
            return text if text or not self._calls else None
        return (*self._parts, {"type": "text", "text": text}) if text else tuple(self._parts)
