"""An answer of Anthropic's Messages API in our words, whole or event by event. Pure: no I/O."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from toolcaddie.core.errors import ProviderError, ProviderProtocolError
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, Usage
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.providers.anthropic_messages import NOT_JSON
from toolcaddie.wires.bodies import UNREADABLE, count, decoded, error_message, kind_of

_CALL, _TEXT, _THINKING = "tool_use", "text", "thinking"
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Why an answer ended, in the words everybody uses; other reasons keep the API's."""
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What an error within a stream would have had for a status, had it come before."""


class _Details(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _Answer(msgspec.Struct):
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    model: str | None = None
    error: Any = None


class _Delta(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: dict[str, Any] | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str
    index: int | None = None
    delta: _Delta | None = None
    content_block: dict[str, Any] | None = None
    message: _Answer | None = None
    usage: _Usage | None = None


class _Kind(msgspec.Struct):
    type: Any = None
    error: Any = None


_Shape = TypeVar("_Shape")
_ENCODER = msgspec.json.Encoder()
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_ANSWER = msgspec.json.Decoder(_Answer)
_EVENT = msgspec.json.Decoder(_Event)
_KIND = msgspec.json.Decoder(_Kind)


def reply_from_wire(body: bytes, *, who: str, author: str = "") -> ModelReply:
    """A whole answer of `author`. Raises `ProviderProtocolError`, and what an error in place of an answer means."""
    answer = _shaped(body, _ANSWER, who)
    if answer.error:
        raise _failure(answer.error, body, who)
    if answer.content is None or (not answer.content and answer.stop_reason is None):
        raise ProviderProtocolError(f"{who} answered without content", body=body)
    calls = tuple(_whole_call(block, who) for block in answer.content if _kind(block, who) == _CALL)
    text = "".join(_text_of(block, who) for block in answer.content if block["type"] == _TEXT)
    return _reply(
        text, calls, answer.content, author=author, reason=answer.stop_reason, usage=answer.usage, model=answer.model
    )


def _reply(
    text: str,
    calls: tuple[ToolCall, ...],
    native: list[dict[str, Any]],
    *,
    author: str,
    reason: str | None,
    usage: _Usage | None,
    model: str | None,
) -> ModelReply:
    message = Message(
        role="assistant",
        content=text if text or not calls else None,
        tool_calls=calls,
        native=tuple(native),
        author=author,
    )
    finish = ("tool_calls" if calls else "stop") if reason is None else _FINISH.get(reason, reason)
    return ModelReply(message=message, finish_reason=finish, usage=_usage(usage), model=model or "")


def _whole_call(block: dict[str, Any], who: str) -> ToolCall:
    block["id"], name = _identity(block, who)
    return ToolCall(id=block["id"], name=name, arguments=_ENCODER.encode(_given(block, who)).decode())


def _identity(block: dict[str, Any], who: str) -> tuple[str, str]:
    """Id and name of a call. A result must say which call it answers, so one without an id is given one."""
    call_id, name = block.get("id") or f"call_{uuid.uuid4().hex[:24]}", block.get("name")
    if not isinstance(call_id, str) or not isinstance(name, str) or not name:
        raise ProviderProtocolError(
            f"{who} answered in an unknown shape: a tool_use without the name of its tool", body=_ENCODER.encode(block)
        )
    return call_id, name


def _given(block: dict[str, Any], who: str) -> dict[str, Any]:
    """The arguments of a call."""
    arguments = block.get("input")
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise ProviderProtocolError(
            f"{who} answered in an unknown shape: the input of a tool_use is no object", body=_ENCODER.encode(block)
        )
    return arguments


def _kind(block: dict[str, Any], who: str) -> str:
    kind = block.get("type")
    if not isinstance(kind, str):
        raise ProviderProtocolError(f"{who} answered with a block of no type", body=_ENCODER.encode(block))
    return kind


def _text_of(block: dict[str, Any], who: str) -> str:
    text = block.get("text")
    if not isinstance(text, str):
        raise ProviderProtocolError(
            f"{who} answered in an unknown shape: a text block without text", body=_ENCODER.encode(block)
        )
    return text


def _usage(wire: _Usage | None) -> Usage:
    """The API counts what its cache read and wrote apart from the rest of the input."""
    if wire is None:
        return Usage()
    read, written = count(wire.cache_read_input_tokens), count(wire.cache_creation_input_tokens)
    return Usage(
        input_tokens=count(wire.input_tokens) + read + written,
        output_tokens=count(wire.output_tokens),
        cached_tokens=read,
        written_tokens=written,
        reasoning_tokens=count(wire.output_tokens_details.thinking_tokens) if wire.output_tokens_details else 0,
    )


# ---------------------------------------------------------------- in, event by event


@dataclass(slots=True)
class _Block:
    """A block while it comes in."""

    start: dict[str, Any]
    kind: str
    call: int | None = None
    """Of a call: its number among the calls."""
    pieces: list[str] = field(default_factory=list)
    """Of its text, its thinking or its input."""
    signature: str | None = None
    citations: list[JsonObject] = field(default_factory=list)
    strange: bool = False
    """A piece came that we do not know how to add, so what we have is not the block."""

    @property
    def joined(self) -> str:
        return "".join(self.pieces)

    def whole(self) -> dict[str, Any]:
        if self.kind == _TEXT:
            whole = {**self.start, _TEXT: self.joined}
            return {**whole, "citations": self.citations} if self.citations else whole
        if self.kind == _THINKING:
            signed = {} if self.signature is None else {"signature": self.signature}
            return {**self.start, _THINKING: self.joined, **signed}
        return {**self.start, "input": _input(self.joined)} if self.pieces else self.start


class Gathering:
    """A streamed answer while it comes in: blocks open, grow and close, then the reason to stop, then the end."""

    def __init__(self, *, who: str, author: str = "") -> None:
        self.done = False
        self._who = who
        self._author = author
        self._open: dict[int, _Block] = {}
        self._native: dict[int, dict[str, Any]] = {}
        """Blocks that are closed, by their index."""
        self._calls: list[ToolCall | None] = []
        self._text: list[str] = []
        self._usage = _Usage()
        self._model: str | None = None
        self._reason: str | None = None

    def add(self, data: bytes) -> ModelDelta | None:
        event = _event(data, self._who)
        take = _EVENTS.get(event.type) if event is not None else None
        return take(self, event) if take is not None and event is not None else None

    def end(self) -> None:
        """The body has ended, which is well only after `message_stop`. Raises `ProviderProtocolError`."""
        if not self.done:
            raise ProviderProtocolError(f"{self._who} cut its stream before the answer was finished")

    def reply(self) -> ModelReply:
        """The whole answer. Raises `ProviderProtocolError` if none came, or a part of it never ended."""
        if self._open:
            raise ProviderProtocolError(f"{self._who} ended its stream in the middle of a block")
        if not self._native and self._reason is None:
            raise ProviderProtocolError(f"{self._who} streamed no content")
        return _reply(
            "".join(self._text),
            tuple(call for call in self._calls if call is not None),
            [self._native[index] for index in sorted(self._native)],
            author=self._author,
            reason=self._reason,
            usage=self._usage,
            model=self._model,
        )

    # ---------------------------------------------------------------- events

    def _message_start(self, event: _Event) -> None:
        if event.message is not None:
            self._model = event.message.model
            self._take_usage(event.message.usage)

    def _block_start(self, event: _Event) -> ModelDelta | None:
        index, start = event.index, event.content_block
        if index is None or start is None or index in self._open or index in self._native:
            raise self._broken("began a block without saying which")
        kind = _kind(start, self._who)
        block = self._open[index] = _Block(start=start, kind=kind)
        if kind == _CALL:
            start["id"], name = _identity(start, self._who)
            block.call = len(self._calls)
            self._calls.append(None)
            return ModelDelta(calls=(CallDelta(index=block.call, id=start["id"], name=name),))
        begun = start.get(kind) if kind in (_TEXT, _THINKING) else None
        return self._grow(block, begun) if isinstance(begun, str) else None

    def _block_delta(self, event: _Event) -> ModelDelta | None:
        block, delta = self._open.get(-1 if event.index is None else event.index), event.delta
        if block is None or delta is None:
            raise self._broken("sent a piece of a block that is not open")
        if block.kind == _TEXT and delta.text is not None:
            return self._grow(block, delta.text)
        if block.kind == _THINKING and delta.thinking is not None:
            return self._grow(block, delta.thinking)
        if delta.partial_json is not None and block.kind not in (_TEXT, _THINKING):
            return self._grow(block, delta.partial_json)
        if delta.signature is not None:
            block.signature = delta.signature
        elif delta.citation is not None:
            block.citations.append(delta.citation)
        else:
            block.strange = True
        return None

    def _grow(self, block: _Block, piece: str) -> ModelDelta | None:
        if not piece:
            return None
        block.pieces.append(piece)
        if block.kind == _TEXT:
            self._text.append(piece)
            return ModelDelta(text=piece)
        if block.kind == _THINKING:
            return ModelDelta(reasoning=piece)
        return None if block.call is None else ModelDelta(calls=(CallDelta(index=block.call, arguments=piece),))

    def _block_stop(self, event: _Event) -> ModelDelta | None:
        block = self._open.pop(-1 if event.index is None else event.index, None)
        if block is None or event.index is None:
            raise self._broken("closed a block that was not open")
        if not block.strange or block.kind in (_CALL, _TEXT):
            self._native[event.index] = block.whole()
        return None if block.call is None else self._call(block, block.call)

    def _call(self, block: _Block, place: int) -> ModelDelta | None:
        """A call is whole. Some servers send the arguments with its start: they are shown now."""
        arguments, shown = block.joined, None
        if not arguments:
            given = _given(block.start, self._who)
            arguments = _ENCODER.encode(given).decode()
            shown = ModelDelta(calls=(CallDelta(index=place, arguments=arguments),)) if given else None
        self._calls[place] = ToolCall(id=block.start["id"], name=block.start["name"], arguments=arguments)
        return shown

    def _message_delta(self, event: _Event) -> None:
        if event.delta is not None and event.delta.stop_reason is not None:
            self._reason = event.delta.stop_reason
        self._take_usage(event.usage)

    def _message_stop(self, event: _Event) -> None:
        self.done = True

    def _take_usage(self, usage: _Usage | None) -> None:
        """Counts are of the whole answer so far; what is not said again stands."""
        if usage is None:
            return
        for name in _Usage.__struct_fields__:
            said = getattr(usage, name)
            if said is not None:
                setattr(self._usage, name, said)

    def _broken(self, how: str) -> ProviderProtocolError:
        return ProviderProtocolError(f"{self._who} {how}")


_EVENTS: Mapping[str, Callable[[Gathering, _Event], ModelDelta | None]] = {
    "message_start": Gathering._message_start,
    "content_block_start": Gathering._block_start,
    "content_block_delta": Gathering._block_delta,
    "content_block_stop": Gathering._block_stop,
    "message_delta": Gathering._message_delta,
    "message_stop": Gathering._message_stop,
}
"""Every other event is passed over: the API says that there will be more of them."""


def _event(data: bytes, who: str) -> _Event | None:
    """One event; None: of a kind we do not know, whatever it holds. Raises what an error event means."""
    try:
        event = _EVENT.decode(data)
    except UNREADABLE:
        event = None
    if event is not None and event.type in _EVENTS:
        return event
    kind = _shaped(data, _KIND, who)
    if kind.error or kind.type == "error":
        raise _failure(kind.error, data, who)
    if isinstance(kind.type, str) and kind.type not in _EVENTS:
        return None
    return _shaped(data, _EVENT, who)


def _shaped(data: bytes, decoder: msgspec.json.Decoder[_Shape], who: str) -> _Shape:
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        decoded(data, who=who)  # says so, where it is no JSON or no object at all
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error}", body=data) from error


def _failure(error: Any, body: bytes, who: str) -> ProviderError:
    said = error.get("type") if isinstance(error, dict) else None
    status = _STATUS.get(said) if isinstance(said, str) else None
    message = f"{who} broke off with an error: {error_message(body)}"
    if status is None:
        return ProviderProtocolError(message, body=body)
    return kind_of(status)(f"{message} ({said})", status=status, body=body)


def _input(arguments: str) -> dict[str, Any]:
    """Arguments as they stand in a block, which goes back as it is: an object, whatever the model wrote."""
    try:
        return _OBJECT.decode(arguments)
    except UNREADABLE:
        return {NOT_JSON: arguments}
