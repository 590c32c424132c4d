"""A streamed answer of the Responses API: read from a provider, written by a door (the side where clients send requests to us).

An answer is a list of items (messages, calls, reasoning). A streamed answer becomes the same items as a whole one, so the code of
`replies.py` reads both. Each item is taken from the event that finishes it: only that event has complete reasoning, and some
servers omit the list of items from their last event. `who` is the provider's name for error messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import CallDelta, ModelDelta, ModelReply
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.wire import AnswerHead
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.responses.errors import ErrorInside, failure
from toolcaddie.wires.responses.messages import BETWEEN, MESSAGE, REASONING
from toolcaddie.wires.responses.own_calls import CUSTOM_CALL, FUNCTION_CALL, is_call, own_call, with_arguments
from toolcaddie.wires.responses.replies import (
    WireItem,
    WireResponse,
    begun_response,
    call_item,
    message_item,
    raw_body,
    read_call,
    read_item,
    reasoning_item,
    reply_from,
    response_of,
    shaped,
    texts_of,
)
from toolcaddie.wires.responses.visible import with_prefix

_DONE = b"[DONE]"
_TEXT_DELTA = "response.output_text.delta"


# ---------------------------------------------------------------- shapes


class _Event(msgspec.Struct):
    type: str = ""


class _Text(msgspec.Struct):
    delta: str
    output_index: int = 0


class _Arguments(msgspec.Struct):
    output_index: int
    delta: str = ""
    arguments: str = ""


class _Place(msgspec.Struct):
    output_index: int | None = None


class _SummaryPart(msgspec.Struct):
    summary_index: int = 0


class _ItemEvent(msgspec.Struct):
    output_index: int
    item: dict[str, Any]


class _End(msgspec.Struct):
    response: WireResponse


class _Last(msgspec.Struct):
    response: msgspec.Raw


class _Failure(msgspec.Struct):
    """An error event: its fields at the top, or in an object of their own."""

    type: str = ""
    status: int | None = None
    message: str | None = None
    code: str | int | None = None
    error: ErrorInside | None = None


_EVENT = msgspec.json.Decoder(_Event)
_TEXT = msgspec.json.Decoder(_Text)
_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_SUMMARY_PART = msgspec.json.Decoder(_SummaryPart)
_ITEM_EVENT = msgspec.json.Decoder(_ItemEvent)
_END = msgspec.json.Decoder(_End)
_LAST = msgspec.json.Decoder(_Last)
_PLACE = msgspec.json.Decoder(_Place)
_FAILURE = msgspec.json.Decoder(_Failure)


# ---------------------------------------------------------------- from a provider


@dataclass(slots=True)
class _Open:
    """An item that has begun."""

    type: str
    name: str | None = None
    is_call: bool = False
    index: int = 0
    """Position of the call among the calls of the answer."""
    call_id: str = ""
    pieces: list[str] = field(default_factory=list)
    """Pieces of text or arguments that the caller has received."""
    whole: dict[str, Any] | None = None
    """The item, once it is finished."""


class ResponsesReader:
    """Reads a streamed answer. Implements `ports.wires.StreamReader`.

    Some servers stream no pieces, so whatever the caller has not yet received of an item is returned with its last event.
    Events of unknown types are ignored. Items of unknown types are stored, and sent back only to the model that wrote them.
    `events`: the pieces contain the provider's own events, for a door of this wire. `namespaces`: those of the request.
    """

    def __init__(self, *, who: str, author: str, events: bool = False, namespaces: Collection[str] = ()) -> None:
        self.done = False
        self._namespaces = namespaces
        self._events = events
        self._who = who
        self._author = author
        self._items: dict[int, _Open] = {}
        self._calls = 0
        self._texts = 0
        """Number of messages with text."""
        self._end: WireResponse | None = None
        self._last = b""
        self._readers: dict[str, Callable[[bytes], ModelDelta | None]] = {
            _TEXT_DELTA: self._text,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._all_arguments,
            "response.output_item.added": self._added,
            "response.output_item.done": self._finished,
            "response.reasoning_summary_part.added": self._summary_part,
            "response.reasoning_summary_text.delta": self._reasoning,
            "response.reasoning_text.delta": self._reasoning,
            "response.completed": partial(self._ended, status="completed"),
            "response.incomplete": partial(self._ended, status="incomplete"),
            "response.failed": partial(self._ended, status="failed"),
            "error": self._broken,
            "": self._broken,
        }

    def add(self, data: bytes) -> ModelDelta | None:
        if self.done or data == _DONE:
            return None
        kind = shaped(data, _EVENT, self._who).type
        read = self._readers.get(kind)
        delta = None if read is None else read(data)
        return _with_event(delta, data) if self._events and self._is_own(kind, data) else delta

    def _is_own(self, kind: str, data: bytes) -> bool:
        """Returns True for an event of an item that is not a call: a door of this wire passes it on."""
        if not kind.startswith(_ITEM_PREFIXES):
            return False
        place = shaped(data, _PLACE, self._who).output_index
        item = None if place is None else self._items.get(place)
        return item is not None and not item.is_call

    def end(self) -> None:
        if not self.done:
            raise ProviderProtocolError(f"{self._who} cut its stream before the answer was finished")

    def reply(self) -> ModelReply:
        if self._end is None:
            raise ProviderProtocolError(f"{self._who} streamed no answer")
        last = self._last
        raw = raw_body(lambda: _LAST.decode(last).response)
        output = list(self._output())
        items = [self._read(item) for item in output]
        return reply_from(self._end, output, items, who=self._who, author=self._author, body=last, raw=raw)

    def _read(self, item: dict[str, Any]) -> WireItem:
        return read_item(item, self._who, self._namespaces)

    def _output(self) -> Iterator[dict[str, Any]]:
        """Yields the items in the order in which they began."""
        for item in self._items.values():
            if item.whole is None:
                raise ProviderProtocolError(
                    f"{self._who} ended its stream with an unfinished {item.type}", body=self._last
                )
            yield {**item.whole, "call_id": item.call_id} if item.is_call else item.whole

    # ---------------------------------------------------------------- events

    def _text(self, data: bytes) -> ModelDelta | None:
        event = shaped(data, _TEXT, self._who)
        item = self._items.get(event.output_index)
        if item is None:
            item = self._items[event.output_index] = _Open(type=MESSAGE)
        elif item.type != MESSAGE or item.whole is not None:
            state = "finished " if item.whole is not None else ""
            raise ProviderProtocolError(f"{self._who} streamed words of a {state}{item.type}", body=data)
        return self._text_delta(item, event.delta)

    def _text_delta(self, item: _Open, text: str) -> ModelDelta | None:
        if not text:
            return None
        between = ""
        if not item.pieces:
            between = BETWEEN if self._texts else ""
            self._texts += 1
        item.pieces.append(text)
        return ModelDelta(text=between + text)

    def _reasoning(self, data: bytes) -> ModelDelta:
        return ModelDelta(reasoning=shaped(data, _TEXT, self._who).delta)

    def _summary_part(self, data: bytes) -> ModelDelta | None:
        return ModelDelta(reasoning=BETWEEN) if shaped(data, _SUMMARY_PART, self._who).summary_index else None

    def _added(self, data: bytes) -> ModelDelta | None:
        event = shaped(data, _ITEM_EVENT, self._who)
        if event.output_index in self._items:
            raise ProviderProtocolError(f"{self._who} began two items at {event.output_index}", body=data)
        return self._begun(event.output_index, self._read(event.item), event.item)

    def _begun(self, place: int, item: WireItem, raw: JsonObject) -> ModelDelta | None:
        opened = self._items[place] = _Open(type=item.type, name=item.name, is_call=item.is_call)
        if not item.is_call:
            return None
        call = read_call(item, self._who)
        opened.index, opened.call_id = self._calls, call.id
        self._calls += 1
        # Only a function's arguments arrive in pieces; those of other calls are made from the finished item.
        arguments = (item.arguments or "") if item.type == FUNCTION_CALL else ""
        opened.pieces.append(arguments)
        return _delta(
            CallDelta(
                index=opened.index,
                id=call.id,
                name=call.name,
                arguments=arguments,
                native=raw if self._events else None,
            )
        )

    def _arguments(self, data: bytes) -> ModelDelta | None:
        event = shaped(data, _ARGUMENTS, self._who)
        call = self._call_at(event.output_index, data)
        call.pieces.append(event.delta)
        return _delta(CallDelta(index=call.index, arguments=event.delta)) if event.delta else None

    def _all_arguments(self, data: bytes) -> ModelDelta | None:
        event = shaped(data, _ARGUMENTS, self._who)
        return self._rest(self._call_at(event.output_index, data), event.arguments, data)

    def _call_at(self, place: int, data: bytes) -> _Open:
        call = self._items.get(place)
        if call is None or call.type != FUNCTION_CALL:
            raise ProviderProtocolError(f"{self._who} streamed arguments of a call it never began", body=data)
        if call.whole is not None:
            raise ProviderProtocolError(f"{self._who} streamed arguments of a finished call", body=data)
        return call

    def _rest_of(self, item: _Open, whole: str, data: bytes) -> str:
        """Returns the rest of an item after its pieces. Raises `ProviderProtocolError` if the whole does not begin with the
        pieces, because the caller has already received them."""
        streamed = "".join(item.pieces)
        if not whole.startswith(streamed):
            raise ProviderProtocolError(
                f"{self._who} streamed pieces that do not match its whole {item.type}", body=data
            )
        return whole[len(streamed) :]

    def _rest(self, call: _Open, arguments: str, data: bytes) -> ModelDelta | None:
        rest = self._rest_of(call, arguments, data)
        call.pieces.append(rest)
        return _delta(CallDelta(index=call.index, arguments=rest)) if rest else None

    def _finished(self, data: bytes) -> ModelDelta | None:
        event = shaped(data, _ITEM_EVENT, self._who)
        return self._closed(event.output_index, event.item, data)

    def _closed(self, place: int, raw: dict[str, Any], data: bytes) -> ModelDelta | None:
        """Finishes an item. Returns the part of it that the caller has not received."""
        item = self._read(raw)
        opened = self._items.get(place)
        begun = None
        if opened is None:
            begun = self._begun(place, item, raw)
            opened = self._items[place]
        if (opened.type, opened.name) != (item.type, item.name):
            raise ProviderProtocolError(
                f"{self._who} began a {opened.type} {opened.name or ''} and ended a {item.type} {item.name or ''}",
                body=data,
            )
        opened.whole = raw
        if item.type == MESSAGE:
            return self._text_delta(opened, self._rest_of(opened, texts_of([item])[0], data))
        rest = self._rest(opened, item.arguments or "", data) if item.is_call else None
        return _joined(begun, rest)

    def _ended(self, data: bytes, *, status: str) -> ModelDelta | None:
        self._end, self._last, self.done = shaped(data, _END, self._who).response, data, True
        self._end.status = status
        return None if status == "failed" else self._missed(self._end.output or [], data)

    def _missed(self, output: Sequence[dict[str, Any]], data: bytes) -> ModelDelta | None:
        """Returns the output that only the last event contains: items that no event of their own finished, or all items if none
        began."""
        places = [place for place, item in self._items.items() if item.whole is None and 0 <= place < len(output)]
        deltas = [self._closed(place, output[place], data) for place in (places if self._items else range(len(output)))]
        pieces = [delta for delta in deltas if delta is not None]
        if not pieces:
            return None
        calls = tuple(piece for delta in pieces for piece in delta.calls)
        return ModelDelta(text="".join(delta.text for delta in pieces), calls=calls)

    def _broken(self, data: bytes) -> None:
        """Raises the error of an error event. Some servers omit its type."""
        event = shaped(data, _FAILURE, self._who)
        if not event.type and event.error is None:
            raise ProviderProtocolError(f"{self._who} streamed an event without a type", body=data)
        error = event.error or ErrorInside(message=event.message, code=event.code)
        raise failure(error, self._who, data, status=event.status)


_ITEM_PREFIXES = tuple(
    f"response.{name}"
    for name in (
        *("output_item.", "content_part.", "output_text.", "reasoning", "refusal.", "web_search_call."),
        *("file_search_call.", "code_interpreter_call", "image_generation_call.", "mcp_call", "mcp_list_tools."),
        *("custom_tool_call_input.", "computer_call", "audio."),
    )
)
"""Beginnings of the types of events that belong to an item."""


def _with_event(delta: ModelDelta | None, data: bytes) -> ModelDelta:
    """Returns the piece with the event that it came in, for a door of this wire."""
    if delta is None:
        return ModelDelta(event=data, wire="responses")
    return ModelDelta(text=delta.text, reasoning=delta.reasoning, event=data, wire="responses")


def _joined(first: ModelDelta | None, second: ModelDelta | None) -> ModelDelta | None:
    """Returns two pieces of calls as one."""
    if first is None or second is None:
        return first or second
    return ModelDelta(calls=(*first.calls, *second.calls))


def _delta(call: CallDelta) -> ModelDelta:
    return ModelDelta(calls=(call,))


# ---------------------------------------------------------------- by a door


class ResponsesWriter:
    """Writes a streamed answer as the events of a response. Implements `ports.wires.StreamWriter`.

    Each item is finished before the next one begins, as in this API.
    """

    def __init__(self, head: AnswerHead) -> None:
        self._head = head
        self.response: JsonObject | None = None
        """The whole response, once it has ended."""
        self._number = 0
        self._output: list[JsonObject] = []
        """Finished items."""
        self._open: JsonObject | None = None
        """The item that is being written."""
        self._pieces: list[str] = []
        """The streamed pieces of the open item."""
        self._waiting: JsonObject | None = None
        """A call that is not a function's. It is written when its arguments, whose pieces are in `_pieces`, are complete."""
        self._streamed_ids: set[str] = set()
        """Ids of the calls that were streamed."""
        self._spliced: dict[int, int] = {}
        """Places in this answer of the provider's items that are passed on, by their places in the provider's answer."""
        self._prefixed: set[int] = set()
        """Places of the messages that got an empty line before their text."""

    def begin(self) -> bytes:
        if self._number:
            return b""
        response = begun_response(self._head)
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def add(self, delta: ModelDelta) -> bytes:
        if delta.event:
            return self._splice(delta)
        out = self.begin()
        if delta.reasoning:
            out += self._more(REASONING, delta.reasoning)
        if delta.text:
            out += self._more(MESSAGE, delta.text)
        for piece in delta.calls:
            if piece.id is not None:
                out += self._finished() + self._opened_call(piece)
            if piece.arguments:
                out += self._piece(piece.arguments)
        return out

    def item(self, item: JsonObject, *, pieces: int = 1) -> bytes:
        """Writes a whole item, its text or arguments in at most `pieces` pieces."""
        out = self.begin() + self._finished() + self._opened(_empty(item))
        whole = _streamed_text(item)
        size = -(-len(whole) // pieces) or 1
        out += b"".join(self._piece(whole[start : start + size]) for start in range(0, len(whole), size))
        return out + self._finished(item)

    def end(self, reply: ModelReply) -> bytes:
        out = self.begin() + self._finished()
        if not self._output:
            out += b"".join(self.item(own_call(item, self._head.own_forms)) for item in _whole_items(reply))
        refusal = (reply.message.extra or {}).get("refusal")
        missing_calls = [call for call in reply.message.tool_calls if call.id not in self._streamed_ids]
        if not self._output and not missing_calls and not refusal and reply.message.content is not None:
            out += self.item(message_item(self._item_id("msg"), text=reply.message.text))
        if refusal and not any(part.get("refusal") for item in self._output for part in item.get("content") or ()):
            out += self.item(message_item(self._item_id("msg"), refusal=refusal))
        for call in missing_calls:
            out += self.item(own_call(call_item(call, self._item_id("fc")), self._head.own_forms))
        response = self.response = response_of(reply, self._head, self._output)
        return out + self._event(f"response.{response['status']}", response=response)

    # ---------------------------------------------------------------- items

    def _more(self, kind: str, text: str) -> bytes:
        out = b""
        if self._open is None or self._open["type"] != kind:
            out = self._finished()
            item = message_item(self._item_id("msg")) if kind == MESSAGE else reasoning_item(self._item_id("rs"), "")
            out += self._opened(_empty(item))
        return out + self._piece(text)

    def _opened_call(self, piece: CallDelta) -> bytes:
        call = ToolCall(id=piece.id or "", name=piece.name or "", arguments="")
        theirs = piece.native if piece.native is not None and is_call(piece.native) else {}
        item = own_call(call_item(call, str(theirs.get("id") or self._item_id("fc"))), self._head.own_forms)
        if item["type"] != FUNCTION_CALL:
            self._waiting, self._pieces = {**theirs, **item}, []
            return b""
        return self._opened(_empty({**theirs, **item}))

    def _splice(self, delta: ModelDelta) -> bytes:
        """Writes an event of the provider with its place in this answer."""
        event = msgspec.json.decode(delta.event)
        kind, source = event.pop("type"), event.get("output_index", -1)
        out = self.begin()
        if kind == "response.output_item.added":
            out += self._finished()
            self._spliced[source] = len(self._output)
            self._output.append(event["item"])
        place = self._spliced.get(source)
        if place is None:  # the provider did not announce the item
            return out + (self._more(MESSAGE, delta.text + event["delta"]) if kind == _TEXT_DELTA else b"")
        if kind == _TEXT_DELTA and delta.text:
            event["delta"] = delta.text + event["delta"]
            self._prefixed.add(place)
        elif place in self._prefixed:
            _add_prefix(event)
        if kind == "response.output_item.done":
            self._output[place] = event["item"]
            del self._spliced[source]
        event["output_index"] = place
        event.pop("sequence_number", None)
        return out + self._event(kind, **event)

    def _opened(self, item: JsonObject) -> bytes:
        self._open, self._pieces = item, []
        if is_call(item):
            self._streamed_ids.add(item["call_id"])
        return self._event("response.output_item.added", output_index=len(self._output), item=item)

    def _piece(self, text: str) -> bytes:
        """Writes a piece of the open item; the first piece also opens the part that contains it."""
        if self._waiting is not None:
            self._pieces.append(text)
            return b""
        assert self._open is not None, "a piece belongs to an open item"
        out = b"" if self._pieces else self._part("added", "")
        self._pieces.append(text)
        match self._open["type"]:
            case "function_call":
                return out + self._at("response.function_call_arguments.delta", delta=text)
            case "custom_tool_call":
                return out + self._at("response.custom_tool_call_input.delta", delta=text)
            case "reasoning":
                return out + self._at("response.reasoning_summary_text.delta", summary_index=0, delta=text)
        return out + self._at("response.output_text.delta", content_index=0, delta=text, logprobs=[])

    def _part(self, state: str, text: str) -> bytes:
        """Writes the event that the part of a message or summary begins (`state` is `added`) or ends (`done`)."""
        assert self._open is not None
        match self._open["type"]:
            case "function_call" | "custom_tool_call":
                return b""
            case "reasoning":
                summary = {"type": "summary_text", "text": text}
                return self._at(f"response.reasoning_summary_part.{state}", summary_index=0, part=summary)
        part: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return self._at(f"response.content_part.{state}", content_index=0, part=part)

    def _finished(self, item: JsonObject | None = None) -> bytes:
        """Finishes the open item: with the contents of `item`, or with those that were streamed."""
        if self._waiting is not None:
            whole, self._waiting = with_arguments(self._waiting, "".join(self._pieces)), None
            return self.item(whole)
        if self._open is None:
            return b""
        text = "".join(self._pieces)
        whole = _filled(self._open, text) if item is None else item
        out = self._done(text) + self._event("response.output_item.done", output_index=len(self._output), item=whole)
        self._output.append(whole)
        self._open = None
        return out

    def _done(self, text: str) -> bytes:
        assert self._open is not None
        if self._open["type"] == FUNCTION_CALL:
            return self._at("response.function_call_arguments.done", name=self._open["name"], arguments=text)
        if self._open["type"] == CUSTOM_CALL:
            return self._at("response.custom_tool_call_input.done", input=text)
        if not self._pieces:
            return b""
        if self._open["type"] == REASONING:
            out = self._at("response.reasoning_summary_text.done", summary_index=0, text=text)
        else:
            out = self._at("response.output_text.done", content_index=0, text=text, logprobs=[])
        return out + self._part("done", text)

    # ---------------------------------------------------------------- events

    def _item_id(self, prefix: str) -> str:
        return f"{prefix}_{self._head.id}_{len(self._output)}"

    def _at(self, kind: str, **fields: Any) -> bytes:
        """Writes an event of the open item."""
        assert self._open is not None
        return self._event(kind, output_index=len(self._output), item_id=self._open["id"], **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        event = {"type": kind, **fields, "sequence_number": self._number}
        self._number += 1
        return b"event: " + kind.encode() + b"\ndata: " + ENCODER.encode(event) + b"\n\n"


def _whole_items(reply: ModelReply) -> list[JsonObject]:
    """Returns the provider's own items of an answer that was not streamed; none if they do not all have an id."""
    items = reply.message.native
    return (
        list(items)
        if all(isinstance(item.get("type"), str) and isinstance(item.get("id"), str) for item in items)
        else []
    )


def _add_prefix(event: dict[str, Any]) -> None:
    """Adds the empty line to the whole texts that the events after the pieces repeat."""
    if event.get("content_index", 0) == 0 and isinstance(event.get("text"), str):
        event["text"] = BETWEEN + event["text"]
    elif event.get("content_index", 0) == 0 and isinstance(event.get("part"), dict) and event["part"].get("text"):
        event["part"]["text"] = BETWEEN + event["part"]["text"]
    elif isinstance(event.get("item"), dict) and event["item"].get("content"):
        event["item"] = with_prefix(event["item"], BETWEEN)


def _empty(item: JsonObject) -> JsonObject:
    """Returns an item without its contents, as the event that begins it shows it."""
    match item.get("type"):
        case "function_call":
            return {**item, "status": "in_progress", "arguments": ""}
        case "custom_tool_call":
            return {**item, "status": "in_progress", "input": ""}
        case "reasoning":
            return {**item, "summary": [], "encrypted_content": item.get("encrypted_content") and "gAAAA"}
        case "message":
            return {**item, "status": "in_progress", "content": []}
    return item


def _filled(item: JsonObject, text: str) -> JsonObject:
    """Returns an item that `_empty` made, with all its text."""
    if item["type"] == FUNCTION_CALL:
        return {**item, "status": "completed", "arguments": text}
    if item["type"] == REASONING:
        return reasoning_item(item["id"], text)
    return message_item(item["id"], text=text)


def _streamed_text(item: JsonObject) -> str:
    """Returns the text of a whole item that is streamed: arguments, a summary, or words. Refusals are written
    when the item ends."""
    if item["type"] in (FUNCTION_CALL, CUSTOM_CALL):
        return str(item["arguments" if item["type"] == FUNCTION_CALL else "input"])
    if item["type"] not in (MESSAGE, REASONING):
        return ""
    parts = item.get("summary") if item["type"] == REASONING else item.get("content")
    return "".join(str(part.get("text") or "") for part in parts or ())
