"""A streamed answer of chat completions: read from a provider, written by a door (the side where clients send requests to us)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolcaddie.core.content import Content, blocks_of
from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, RawBody
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.wire import AnswerHead
from toolcaddie.wires.bodies import ENCODER, decoded, raw_fields
from toolcaddie.wires.chat.content import read_part
from toolcaddie.wires.chat.messages import FUNCTION, call_extra, message_extra, write_call, write_message
from toolcaddie.wires.chat.replies import (
    WireUsage,
    finish_of,
    kind_called,
    name_and_input,
    new_call_id,
    read_usage,
    shaped,
    usage_of,
)

_DONE = b"[DONE]"
_NOT_HEAD = frozenset({"choices", "usage"})
"""Fields of a chunk that hold its piece of the answer. All other fields describe the whole answer."""
_WHOLE = frozenset({"id", "type", "name"})
"""Strings that are never split, but may be repeated in every piece."""


# ---------------------------------------------------------------- shapes


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
    usage: WireUsage | None = None
    model: str | None = None


# ---------------------------------------------------------------- from a provider


@dataclass(slots=True)
class _OpenCall:
    id: str
    name: str
    kind: str
    texts: list[str] = field(default_factory=list)
    """Pieces of the arguments, or of a custom tool's input."""
    extra: JsonObject = field(default_factory=dict)

    def take(self, text: str, kind: str, extra: JsonObject | None) -> None:
        """Adds a piece of the call. `text`: its part of the arguments, or of a custom tool's input. `kind`: the kind of call that
        the piece names. `extra`: fields of the piece that have no place in `ToolCall`; for a call that is not of a function also
        the object under its kind."""
        self.texts.append(text)
        if extra is None:
            return
        if text and kind != FUNCTION:  # the input stands in `texts`: it may be long, and is joined once
            extra = {**extra, kind: {**extra[kind], "input": ""}}
        self.extra = _merged(self.extra, extra)

    def whole(self) -> ToolCall:
        text = "".join(self.texts)
        if self.kind == FUNCTION:
            return ToolCall(id=self.id, name=self.name, arguments=text or "{}", extra=self.extra or None)
        inside = self.extra.get(self.kind)
        extra = {"type": self.kind, **self.extra}
        if isinstance(inside, dict) and "input" in inside:
            extra[self.kind] = {**inside, "input": text}
        return ToolCall(id=self.id, name=self.name, arguments=text, extra=extra)


def _merged(earlier: JsonObject, new: JsonObject) -> JsonObject:
    """Returns earlier fields with those of a further piece: strings and lists are concatenated, objects are merged by field,
    other values replace the earlier ones."""
    grown = dict(earlier)
    for name, value in new.items():
        before = grown.get(name)
        texts = isinstance(value, str) and isinstance(before, str) and name not in _WHOLE
        if texts or (isinstance(value, list) and isinstance(before, list)):
            grown[name] = before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            grown[name] = _merged(before, value)
        elif value is not None:
            grown[name] = value
    return grown


class ChatReader:
    """Reads a streamed answer: every chunk gives a delta, and all of them together one reply. Implements
    `ports.wires.StreamReader`.

    Servers number the pieces of calls differently, so calls are numbered again here. A piece opens a call if no call
    has its index yet, or if it has a name and its name or id differs from that call's; otherwise it continues that call.
    """

    def __init__(self, *, who: str, show_usage: bool, author: str = "") -> None:
        self.done = False
        """True after [DONE], or after the end of a body without it."""
        self._who = who
        self._author = author
        self._show_usage = show_usage
        self._head: dict[str, Any] = {}
        self._message: JsonObject = {}
        self._text: list[str] = []
        self._parts: list[JsonObject] = []
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self._finish_reason: str | None = None
        self._usage: WireUsage | None = None
        self._raw_usage: JsonObject | None = None
        self._answered = False

    def add(self, data: bytes) -> ModelDelta | None:
        """Reads an event. None: it has nothing for the caller ([DONE], or usage that the caller did not request)."""
        if data == _DONE:
            self.done = True
        if self.done:
            return None
        raw = decoded(data, who=self._who)
        chunk = shaped(raw, _Chunk, self._who)
        if chunk.usage is not None:
            self._usage, self._raw_usage = chunk.usage, raw["usage"]
        head = self._head
        for name, value in raw.items():
            if value is not None and name not in _NOT_HEAD:
                head[name] = value
        if not self._show_usage:
            usage = raw.pop("usage", None)
            if usage is not None and not chunk.choices:
                return None
        text: list[str] = []
        calls: list[CallDelta] = []
        for position, choice in enumerate(chunk.choices or ()):
            if not choice.index:  # the first of several choices is the answer; the others are in `raw`
                self._take(choice, raw["choices"][position], text, calls)
        return ModelDelta(text="".join(text), calls=tuple(calls), raw=raw)

    def end(self) -> None:
        """Marks the end of the body. Some servers omit [DONE], which is accepted after a finish reason.

        Raises `ProviderProtocolError` if the stream was cut off earlier.
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
            call_delta = self._piece(piece, wire["delta"]["tool_calls"][position])
            if call_delta is not None:
                calls.append(call_delta)
        unknown = message_extra(wire["delta"])
        if unknown is not None:  # reasoning, refusals
            self._message = _merged(self._message, unknown)

    def _piece(self, piece: _CallPiece, wire: JsonObject) -> CallDelta | None:
        """Returns the delta of a piece. None: its call is not of a function, and is only in the whole reply."""
        kind = kind_called(wire)
        function = piece.function or _NOTHING
        name, text = (function.name, function.arguments or "") if kind == FUNCTION else name_and_input(wire, kind)
        index = self._index_of(piece, name)
        opens = index == len(self._calls)
        if opens:
            self._calls.append(self._new_call(piece, kind, name))
            self._by_id.setdefault(self._calls[index].id, index)
        call = self._calls[index]
        extra = call_extra(wire)
        call.take(text, kind, extra)
        if call.kind != FUNCTION:
            return None
        if opens:
            return CallDelta(index=index, id=call.id, name=name, arguments=text, extra=extra)
        return CallDelta(index=index, arguments=text, extra=extra)

    def _new_call(self, piece: _CallPiece, kind: str, name: str | None) -> _OpenCall:
        if not name and kind == FUNCTION:
            raise ProviderProtocolError(f"{self._who} began a tool call without a name")
        return _OpenCall(id=piece.id or new_call_id(), name=name or kind, kind=kind)

    def _index_of(self, piece: _CallPiece, name: str | None) -> int:
        """Returns our number of the call that a piece belongs to. If it is the next free number, the piece opens a call."""
        free = len(self._calls)
        ours = self._unnumbered(piece, name) if piece.index is None else self._by_index.get(piece.index, free)
        if ours < free and self._is_another(self._calls[ours], piece.id, name):
            ours = free
        if piece.index is not None:
            self._by_index[piece.index] = ours
        return ours

    def _unnumbered(self, piece: _CallPiece, name: str | None) -> int:
        """Returns the number of a piece without an index: the number of the call with the same id; else a new number if
        the piece names a tool; else the number of the last call."""
        if piece.id and piece.id in self._by_id:
            return self._by_id[piece.id]
        return len(self._calls) if name else max(0, len(self._calls) - 1)

    @staticmethod
    def _is_another(call: _OpenCall, call_id: str | None, name: str | None) -> bool:
        """Returns True if a piece opens a second call under a used index. Only a piece with a name does: some servers
        invent a new id for every piece."""
        return bool(name) and (name != call.name or (bool(call_id) and call_id != call.id))

    def reply(self) -> ModelReply:
        """Returns the whole answer. Raises `ProviderProtocolError` if there was no answer."""
        if not self._answered:
            raise ProviderProtocolError(f"{self._who} streamed an answer without `choices`")
        calls = tuple(call.whole() for call in self._calls)
        message = Message(
            role="assistant",
            content=self._content(),
            tool_calls=calls,
            extra=self._message or None,
            author=self._author,
        )
        finish = self._finish_reason or finish_of(calls)
        return ModelReply(
            message=message,
            finish_reason=finish,
            usage=read_usage(self._usage),
            model=str(self._head.get("model", "")),
            raw=RawBody(
                wire="chat",
                fields={
                    **self._head,
                    "object": "chat.completion",
                    "choices": [{"index": 0, "message": write_message(message), "finish_reason": finish}],
                    "usage": self._raw_usage,
                },
            ),
        )

    def _content(self) -> Content | None:
        text = "".join(self._text)
        if not self._parts:
            return text if text or not self._calls else None
        return (*map(read_part, self._parts), *blocks_of(text))


# ---------------------------------------------------------------- by a door

DONE = b"data: [DONE]\n\n"
_REPLACED = frozenset({"id", "object", "created", "model", "choices", "usage"})
_NOT_TEXT = frozenset({"tool_calls", "role"})


class ChatWriter:
    """Writes a streamed answer as chunks. Implements `ports.wires.StreamWriter`.

    The client sees one answer with one `id`, one `created` and one role, however many model calls it took.
    """

    def __init__(self, head: AnswerHead, *, include_usage: bool) -> None:
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{head.id}",
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
        }
        self._include_usage = include_usage
        self._begun = False
        self._streamed_ids: set[str] = set()
        """Ids of the calls that were streamed."""

    def begin(self) -> bytes:
        return b"" if self._begun else self._chunk({})

    def add(self, delta: ModelDelta) -> bytes:
        if delta.calls:
            return b"".join(map(self._call, delta.calls))
        return self._text(delta)

    def end(self, reply: ModelReply) -> bytes:
        out = bytearray()
        calls = reply.message.tool_calls
        missing_calls = [call for call in calls if call.id not in self._streamed_ids]
        for index, call in enumerate(missing_calls, start=len(self._streamed_ids)):
            out += self._chunk({"tool_calls": [{"index": index, **write_call(call)}]})
        unknown = {name: value for name, value in raw_fields(reply, "chat").items() if name not in _REPLACED}
        out += self._chunk({}, finish=reply.finish_reason, extra=unknown)
        if self._include_usage:
            out += _event({**self._head, "choices": [], "usage": usage_of(reply)})
        return bytes(out) + DONE

    def _text(self, delta: ModelDelta) -> bytes:
        raw = delta.raw
        if raw is None:
            return self._chunk({"content": delta.text}) if delta.text else b""
        choices = raw.get("choices") or ()
        choice = choices[0] if choices else {}
        # The provider's delta without calls and role, which are written here.
        wire = {
            name: value
            for name, value in (choice.get("delta") or {}).items()
            if name not in _NOT_TEXT and value not in (None, "")
        }
        if delta.text:
            wire["content"] = delta.text
        if not wire:
            return b""
        extra = None if raw.keys() <= _REPLACED else {n: value for n, value in raw.items() if n not in _REPLACED}
        return self._chunk(wire, logprobs=choice.get("logprobs"), extra=extra)

    def _call(self, piece: CallDelta) -> bytes:
        unknown = dict(piece.extra or ())
        function: dict[str, Any] = {**unknown.pop("function", {}), "arguments": piece.arguments}
        call: dict[str, Any] = {**unknown, "index": piece.index}
        if piece.id is not None:
            self._streamed_ids.add(piece.id)
            call |= {"id": piece.id, "type": "function"}
        if piece.name is not None:
            function = {"name": piece.name, **function}
        return self._chunk({"tool_calls": [{**call, "function": function}]})

    def _chunk(
        self,
        delta: Mapping[str, Any],
        *,
        finish: str | None = None,
        logprobs: Any = None,
        extra: Mapping[str, Any] | None = None,
    ) -> bytes:
        if not self._begun:
            self._begun = True
            delta = {"role": "assistant", **delta}
            delta.setdefault("content", "" if "tool_calls" not in delta else None)
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return _event({**self._head, **(extra or {}), "choices": [choice]})


def _event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + ENCODER.encode(chunk) + b"\n\n"
