"""A streamed answer of the Messages API: read from a provider, written by a door (the side where clients send requests to us)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import CallDelta, ModelDelta, ModelReply
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead
from toolcaddie.wires.bodies import ENCODER, UNREADABLE
from toolcaddie.wires.messages.errors import failure
from toolcaddie.wires.messages.messages import NOT_JSON
from toolcaddie.wires.messages.replies import (
    CALL,
    OURS,
    TEXT,
    THINKING,
    WireAnswer,
    WireUsage,
    answer_head,
    block_kind,
    call_identity,
    call_input,
    made_reply,
    reply_usage,
    shaped,
    stop_fields,
    unknown_fields,
    write_usage,
)


class _Kind(msgspec.Struct):
    type: Any = None
    error: Any = None


class _Event(msgspec.Struct):
    type: str
    index: int | None = None
    delta: _Delta | None = None
    content_block: dict[str, Any] | None = None
    message: WireAnswer | None = None
    usage: WireUsage | None = None


class _Delta(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: dict[str, Any] | None = None
    stop_reason: str | None = None


_OBJECT = msgspec.json.Decoder(dict[str, Any])
_EVENT = msgspec.json.Decoder(_Event)
_KIND = msgspec.json.Decoder(_Kind)


# ---------------------------------------------------------------- from a provider


@dataclass(slots=True)
class _Block:
    """A block that has begun and not ended."""

    start: dict[str, Any]
    kind: str
    call: int | None = None
    """For a call, its position among the calls of the answer."""
    pieces: list[str] = field(default_factory=list)
    """Pieces of text, thinking or input."""
    signature: str | None = None
    citations: list[JsonObject] = field(default_factory=list)
    incomplete: bool = False
    """True if a piece of an unknown type came, so that the block is incomplete."""

    @property
    def joined(self) -> str:
        return "".join(self.pieces)

    def whole(self) -> dict[str, Any]:
        if self.kind == TEXT:
            whole = {**self.start, TEXT: self.joined}
            return {**whole, "citations": self.citations} if self.citations else whole
        if self.kind == THINKING:
            signed = {} if self.signature is None else {"signature": self.signature}
            return {**self.start, THINKING: self.joined, **signed}
        return {**self.start, "input": _input(self.joined)} if self.pieces else self.start


class MessagesReader:
    """Reads a streamed answer: blocks begin, grow and end; the reason to stop and the end of the answer follow. Implements
    `ports.wires.StreamReader`. `events`: the pieces contain the provider's own events, for a door of this wire."""

    def __init__(self, *, who: str, author: str = "", events: bool = False) -> None:
        self._events = events
        self.done = False
        self._who = who
        self._author = author
        self._open: dict[int, _Block] = {}
        self._native: dict[int, dict[str, Any]] = {}
        """Finished blocks by index."""
        self._calls: list[ToolCall | None] = []
        self._text: list[str] = []
        self._usage = WireUsage()
        self._model: str | None = None
        self._reason: str | None = None
        self._with_fields: list[bytes] = []
        """Events with fields that a door of this wire passes on."""

    def add(self, data: bytes) -> ModelDelta | None:
        event = _read_event(data, self._who)
        if event is None:
            return None
        if event.type in _WITH_FIELDS:
            self._with_fields.append(data)
        is_own = self._events and event.type in _OF_BLOCKS and self._kind_at(event) != CALL
        delta = _EVENTS[event.type](self, event)
        return _with_event(delta, data) if is_own else delta

    def _kind_at(self, event: _Event) -> Any:
        """Returns the type of the block to which an event belongs."""
        if event.content_block is not None:
            return event.content_block.get("type")
        block = self._open.get(-1 if event.index is None else event.index)
        return None if block is None else block.kind

    def end(self) -> None:
        """Marks the end of the body. Raises `ProviderProtocolError` if it came before `message_stop`."""
        if not self.done:
            raise ProviderProtocolError(f"{self._who} cut its stream before the answer was finished")

    def reply(self) -> ModelReply:
        """Returns the whole answer. Raises `ProviderProtocolError` if there was no answer or a block did not end."""
        if self._open:
            raise ProviderProtocolError(f"{self._who} ended its stream in the middle of a block")
        if not self._native and self._reason is None:
            raise ProviderProtocolError(f"{self._who} streamed no content")
        return made_reply(
            "".join(self._text),
            tuple(call for call in self._calls if call is not None),
            [self._native[index] for index in sorted(self._native)],
            author=self._author,
            reason=self._reason,
            usage=self._usage,
            model=self._model,
            fields=partial(_fields_of, tuple(self._with_fields)),
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
        kind = block_kind(start, self._who)
        block = self._open[index] = _Block(start=start, kind=kind)
        if kind == CALL:
            start["id"], name = call_identity(start, self._who)
            block.call = len(self._calls)
            self._calls.append(None)
            return ModelDelta(
                calls=(CallDelta(index=block.call, id=start["id"], name=name, native=start if self._events else None),)
            )
        begun = start.get(kind) if kind in (TEXT, THINKING) else None
        return self._grow(block, begun) if isinstance(begun, str) else None

    def _block_delta(self, event: _Event) -> ModelDelta | None:
        block, delta = self._open.get(-1 if event.index is None else event.index), event.delta
        if block is None or delta is None:
            raise self._broken("sent a piece of a block that is not open")
        if block.kind == TEXT and delta.text is not None:
            return self._grow(block, delta.text)
        if block.kind == THINKING and delta.thinking is not None:
            return self._grow(block, delta.thinking)
        if delta.partial_json is not None and block.kind not in (TEXT, THINKING):
            return self._grow(block, delta.partial_json)
        if delta.signature is not None:
            block.signature = delta.signature
            return ModelDelta(signature=delta.signature) if delta.signature else None
        if delta.citation is not None:
            block.citations.append(delta.citation)
        else:
            block.incomplete = True
        return None

    def _grow(self, block: _Block, piece: str) -> ModelDelta | None:
        if not piece:
            return None
        block.pieces.append(piece)
        if block.kind == TEXT:
            self._text.append(piece)
            return ModelDelta(text=piece)
        if block.kind == THINKING:
            return ModelDelta(reasoning=piece)
        return None if block.call is None else ModelDelta(calls=(CallDelta(index=block.call, arguments=piece),))

    def _block_stop(self, event: _Event) -> ModelDelta | None:
        block = self._open.pop(-1 if event.index is None else event.index, None)
        if block is None or event.index is None:
            raise self._broken("closed a block that was not open")
        if not block.incomplete or block.kind in (CALL, TEXT):
            self._native[event.index] = block.whole()
        return None if block.call is None else self._call(block, block.call)

    def _call(self, block: _Block, place: int) -> ModelDelta | None:
        """Finishes a call. Some servers send the arguments when the call begins; then the caller receives them here."""
        arguments, delta = block.joined, None
        if not arguments:
            fields = call_input(block.start, self._who)
            arguments = ENCODER.encode(fields).decode()
            delta = ModelDelta(calls=(CallDelta(index=place, arguments=arguments),)) if fields else None
        self._calls[place] = ToolCall(id=block.start["id"], name=block.start["name"], arguments=arguments)
        return delta

    def _message_delta(self, event: _Event) -> None:
        if event.delta is not None and event.delta.stop_reason is not None:
            self._reason = event.delta.stop_reason
        self._take_usage(event.usage)

    def _message_stop(self, event: _Event) -> None:
        self.done = True

    def _take_usage(self, usage: WireUsage | None) -> None:
        """Updates the usage. Each count is that of the whole answer so far; counts that an event does not repeat stay."""
        if usage is None:
            return
        for name in WireUsage.__struct_fields__:
            count = getattr(usage, name)
            if count is not None:
                setattr(self._usage, name, count)

    def _broken(self, how: str) -> ProviderProtocolError:
        return ProviderProtocolError(f"{self._who} {how}")


_EVENTS: Mapping[str, Callable[[MessagesReader, _Event], ModelDelta | None]] = {
    "message_start": MessagesReader._message_start,
    "content_block_start": MessagesReader._block_start,
    "content_block_delta": MessagesReader._block_delta,
    "content_block_stop": MessagesReader._block_stop,
    "message_delta": MessagesReader._message_delta,
    "message_stop": MessagesReader._message_stop,
}
"""Reader of each type of event. Other events are ignored, because the API may add types at any time."""
_OF_BLOCKS = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})
_WITH_FIELDS = frozenset({"message_start", "message_delta"})
_FRAME = frozenset({*OURS, "message", "delta"})
"""Fields of an event that a door writes itself and never passes on from a provider."""


def _with_event(delta: ModelDelta | None, data: bytes) -> ModelDelta:
    """Returns the piece with the event that it came in, for a door of this wire."""
    if delta is None:
        return ModelDelta(event=data, wire="messages")
    return ModelDelta(
        text=delta.text, reasoning=delta.reasoning, signature=delta.signature, event=data, wire="messages"
    )


def _read_event(data: bytes, who: str) -> _Event | None:
    """Returns an event; None: its type is unknown. Raises the exception for an error event."""
    try:
        event = _EVENT.decode(data)
    except UNREADABLE:
        event = None
    if event is not None and event.type in _EVENTS:
        return event
    kind = shaped(data, _KIND, who)
    if kind.error or kind.type == "error":
        raise failure(kind.error, data, who)
    if isinstance(kind.type, str) and kind.type not in _EVENTS:
        return None
    return shaped(data, _EVENT, who)


def _fields_of(events: Sequence[bytes]) -> JsonObject:
    """Returns the fields of the streamed answer that a door of this wire passes on. Events that are not JSON are skipped."""
    collected: dict[str, Any] = {}
    for data in events:
        try:
            event = _OBJECT.decode(data)
        except UNREADABLE:
            continue
        fields = {**event, **(event.get("message") or {}), **(event.get("delta") or {})}
        usage = {**(collected.get("usage") or {}), **_not_null(fields.pop("usage", None) or {})}
        new = {name: value for name, value in fields.items() if name not in _FRAME}
        collected = {**new, **collected, **_not_null(new), "usage": usage}
    return collected


def _not_null(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _input(arguments: str) -> dict[str, Any]:
    """Returns arguments for a block that goes back unchanged: always an object, because the API
    refuses anything else."""
    try:
        return _OBJECT.decode(arguments)
    except UNREADABLE:
        return {NOT_JSON: arguments}


# ---------------------------------------------------------------- by a door


class MessagesWriter:
    """Writes a streamed answer as events. Implements `ports.wires.StreamWriter`.

    Text and thinking end when another block begins. Calls stay open to the end, because some providers send the pieces
    of several calls alternately.
    """

    def __init__(self, head: AnswerHead) -> None:
        self._head = head
        self._begun = False
        self._count = 0
        """Number of blocks so far, which is the index of the next one."""
        self._open: tuple[str, int] | None = None
        """Kind and index of the text or thinking that is being written."""
        self._calls: dict[int, int] = {}
        """Index of the block of each call, by the number of the call."""
        self._streamed_ids: set[str] = set()
        """Ids of the calls that were streamed."""
        self._has_text = False
        self._spliced = -1
        """Index of the provider's block that is being passed on."""

    def begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return _event(
            "message_start", message={**answer_head(self._head), "content": [], "usage": write_usage(Usage())}
        )

    def add(self, delta: ModelDelta) -> bytes:
        if delta.event:
            return self._splice(delta)
        out = b""
        if delta.reasoning:
            out += self._grow(THINKING, {"type": "thinking_delta", "thinking": delta.reasoning})
        if delta.signature:
            out += self._grow(THINKING, {"type": "signature_delta", "signature": delta.signature})
        if delta.text:
            self._has_text = True
            out += self._grow(TEXT, {"type": "text_delta", "text": delta.text})
        return out + b"".join(map(self._call, delta.calls))

    def end(self, reply: ModelReply) -> bytes:
        out = b""
        if not self._count:
            out += b"".join(map(self._whole, reply.message.native))
        if not self._has_text and reply.message.text:
            out += self.add(ModelDelta(text=reply.message.text))
        missing_calls = [call for call in reply.message.tool_calls if call.id not in self._streamed_ids]
        for number, call in enumerate(missing_calls, start=max(self._calls, default=-1) + 1):
            out += self._call(CallDelta(index=number, id=call.id, name=call.name, arguments=call.arguments))
        out += self.begin() + self._close()
        out += b"".join(_event("content_block_stop", index=index) for index in self._calls.values())
        unknown = unknown_fields(reply)
        beside = {name: value for name, value in unknown.items() if name in _BESIDE_DELTA}
        delta = {**stop_fields(reply), **{name: value for name, value in unknown.items() if name not in beside}}
        out += _event("message_delta", delta=delta, usage=reply_usage(reply), **beside)
        return out + _event("message_stop")

    def _splice(self, delta: ModelDelta) -> bytes:
        """Writes an event of the provider with its index in this answer. The text of `delta` precedes that of the event."""
        event = _OBJECT.decode(delta.event)
        out = b""
        if event["type"] == "content_block_start":
            out = self.begin() + self._close()
            self._spliced, self._count = self._count, self._count + 1
        inside = event.get("delta" if event["type"] == "content_block_delta" else "content_block")
        if isinstance(inside, dict) and inside.get(TEXT):
            self._has_text = True
            inside[TEXT] = delta.text + inside[TEXT]
        event["index"] = self._spliced
        return out + _event(event.pop("type"), **event)

    def _grow(self, kind: str, delta: JsonObject) -> bytes:
        out = self.begin()
        if self._open is None or self._open[0] != kind:
            out += self._close()
            self._open = (kind, self._count)
            out += self._start(_EMPTY[kind])
        return out + _event("content_block_delta", index=self._open[1], delta=delta)

    def _whole(self, block: JsonObject) -> bytes:
        """Writes a block of an answer that was not streamed."""
        if block.get("type") == CALL:
            arguments = ENCODER.encode(block.get("input") or {}).decode()
            return self._call(
                CallDelta(
                    index=self._count, id=block.get("id"), name=block.get("name"), arguments=arguments, native=block
                )
            )
        if block.get("type") == TEXT:
            self._has_text = True
            return self._grow(TEXT, {"type": "text_delta", "text": block.get("text") or ""}) + self._close()
        out = self.begin() + self._close()
        index = self._count
        return out + self._start(block) + _event("content_block_stop", index=index)

    def _start(self, block: JsonObject) -> bytes:
        index, self._count = self._count, self._count + 1
        return _event("content_block_start", index=index, content_block=block)

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        index, self._open = self._open[1], None
        return _event("content_block_stop", index=index)

    def _call(self, piece: CallDelta) -> bytes:
        out = self.begin()
        if piece.index not in self._calls:
            out += self._close()
            self._calls[piece.index] = self._count
            self._streamed_ids.add(piece.id or "")
            own = piece.native if piece.native is not None and piece.native.get("type") == CALL else {}
            out += self._start({**own, "type": CALL, "id": piece.id or "", "name": piece.name or "", "input": {}})
        if not piece.arguments:
            return out
        delta = {"type": "input_json_delta", "partial_json": piece.arguments}
        return out + _event("content_block_delta", index=self._calls[piece.index], delta=delta)


_BESIDE_DELTA = frozenset({"context_management"})
"""Fields that are at the top of the last event and not inside its `delta`."""
_EMPTY: Mapping[str, JsonObject] = {
    TEXT: {"type": TEXT, "text": ""},
    THINKING: {"type": THINKING, "thinking": "", "signature": ""},
}


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + ENCODER.encode({"type": kind, **fields}) + b"\n\n"
