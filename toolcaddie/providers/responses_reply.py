"""Answers of OpenAI's Responses API in our words, whole and streamed. Pure: no I/O.

A streamed answer becomes the same items as a whole one, so both are read by the same rules. The items are taken from the
events that finish them: reasoning is whole only there, and some servers leave the list out of their last event.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec

from toolcaddie.core.errors import ProviderError, ProviderProtocolError, ProviderUnavailableError
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, Usage
from toolcaddie.core.tool import ToolCall
from toolcaddie.providers.responses_wire import FUNCTION_CALL, MESSAGE, REASONING
from toolcaddie.wires.bodies import UNREADABLE, count, decoded, kind_of

_BETWEEN = "\n\n"
"""Stands between two messages of one answer, or two paragraphs of a summary: the wire has them apart."""
_DONE = b"[DONE]"

_STATUSES = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "overloaded": 503,
    "overloaded_error": 503,
    "server_is_overloaded": 503,
    "server_overloaded": 503,
    "service_unavailable": 503,
    "service_unavailable_error": 503,
    "slow_down": 503,
    "timeout": 504,
    "vector_store_timeout": 504,
}
"""What an error named inside an answer would have been as an HTTP status. Every other name is of a fault in the request."""
_AT_FAULT = 400

_FINISHES = {"max_output_tokens": "length"}


# ---------------------------------------------------------------- shapes


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Error(msgspec.Struct):
    message: str | None = None
    code: str | int | None = None
    type: str | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    output: list[dict[str, Any]] | None = None
    status: str | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None


class _Whole(_Response):
    object: str | None = None


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    """What is read of an item; the rest is kept as it is."""

    type: str
    name: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    content: list[_Part] | None = None


class _Event(msgspec.Struct):
    type: str = ""


class _Text(msgspec.Struct):
    delta: str
    output_index: int = 0


class _Arguments(msgspec.Struct):
    output_index: int
    delta: str = ""
    arguments: str = ""


class _SummaryPart(msgspec.Struct):
    summary_index: int = 0


class _ItemEvent(msgspec.Struct):
    output_index: int
    item: dict[str, Any]


class _End(msgspec.Struct):
    response: _Response


class _Failure(msgspec.Struct):
    """An error event: its fields at the top, or in an object of their own."""

    type: str = ""
    status: int | None = None
    message: str | None = None
    code: str | int | None = None
    error: _Error | None = None


_Shape = TypeVar("_Shape")

_WHOLE = msgspec.json.Decoder(_Whole)
_EVENT = msgspec.json.Decoder(_Event)
_TEXT = msgspec.json.Decoder(_Text)
_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_SUMMARY_PART = msgspec.json.Decoder(_SummaryPart)
_ITEM_EVENT = msgspec.json.Decoder(_ItemEvent)
_END = msgspec.json.Decoder(_End)
_FAILURE = msgspec.json.Decoder(_Failure)


def _shaped(data: bytes, decoder: msgspec.json.Decoder[_Shape], who: str) -> _Shape:
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        decoded(data, who=who)  # garbage and error objects: says better what it is
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error}", body=data) from error


def _item(raw: dict[str, Any], who: str) -> _Item:
    """The item, checked as far as it is read. Of a kind that is not known here only the type is."""
    known = raw.get("type") in (FUNCTION_CALL, MESSAGE)
    try:
        return msgspec.convert(raw if known else {"type": raw.get("type")}, _Item)
    except msgspec.ValidationError as error:
        body = msgspec.json.encode(raw)
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error} of an item", body=body) from error


# ---------------------------------------------------------------- whole


def reply_from_wire(body: bytes, *, who: str, author: str = "") -> ModelReply:
    """A whole answer of `author`. Raises the `ProviderError` that a failed one names."""
    answer = _shaped(body, _WHOLE, who)
    if answer.output is None and answer.object != "response":
        decoded(body, who=who)  # an error object
        raise ProviderProtocolError(f"{who} answered in an unknown shape: there is no output", body=body)
    return _reply(answer, answer.output or [], who=who, author=author, body=body)


def _reply(answer: _Response, output: Sequence[dict[str, Any]], *, who: str, author: str, body: bytes) -> ModelReply:
    if answer.status == "failed" or (answer.error is not None and answer.status is None):
        raise _failed(answer.error or _Error(), who, body)
    if answer.status not in (None, "completed", "incomplete"):
        raise ProviderProtocolError(f"{who} answered before it was done: its status is {answer.status!r}", body=body)
    items = [_item(raw, who) for raw in output]
    if answer.status != "incomplete" and not any(item.type != REASONING for item in items):
        raise ProviderProtocolError(f"{who} answered without a message or a call", body=body)
    calls = tuple(_call(item, who) for item in items if item.type == FUNCTION_CALL)
    text, refusal = _said(items)
    return ModelReply(
        message=Message(
            role="assistant",
            content=text or (None if calls else ""),
            tool_calls=calls,
            extra={"refusal": refusal} if refusal else None,
            native=tuple(output),
            author=author,
        ),
        finish_reason=_finish_of(answer, calls),
        usage=_usage(answer.usage),
        model=answer.model or "",
    )


def _call(item: _Item, who: str) -> ToolCall:
    if not item.name:
        raise ProviderProtocolError(f"{who} answered with a tool call that does not say which tool")
    return ToolCall(id=item.call_id or _new_call_id(), name=item.name, arguments=item.arguments or "{}")


def _said(items: Sequence[_Item]) -> tuple[str, str]:
    """The words of all messages, and of all refusals."""
    parts = [item.content or [] for item in items if item.type == MESSAGE]
    texts = ("".join(part.text or "" for part in message if part.type == "output_text") for message in parts)
    return _BETWEEN.join(filter(None, texts)), "".join(part.refusal or "" for message in parts for part in message)


def _finish_of(answer: _Response, calls: Sequence[ToolCall]) -> str:
    if answer.status == "incomplete":
        reason = (answer.incomplete_details and answer.incomplete_details.reason) or "incomplete"
        return _FINISHES.get(reason, reason)
    return "tool_calls" if calls else "stop"


def _usage(wire: _Usage | None) -> Usage:
    if wire is None:
        return Usage()
    read = wire.input_tokens_details or _InputDetails()
    written = wire.output_tokens_details or _OutputDetails()
    return Usage(
        input_tokens=count(wire.input_tokens),
        output_tokens=count(wire.output_tokens),
        cached_tokens=count(read.cached_tokens),
        written_tokens=count(read.cache_write_tokens),
        reasoning_tokens=count(written.reasoning_tokens),
    )


def _failed(error: _Error, who: str, body: bytes, *, status: int | None = None) -> ProviderError:
    """What an error named inside an answer means. One without a name says nothing of the request."""
    names = [str(name) for name in (error.code, error.type) if name]
    said = f"{who} broke off with an error: {error.message or 'it does not say which'}"
    said += f" ({', '.join(names)})" if names else ""
    if status is None and not names:
        return ProviderUnavailableError(said, body=body)
    if status is None:
        status = next((_STATUSES[name] for name in names if name in _STATUSES), _AT_FAULT)
    return kind_of(status)(said, body=body)


def _new_call_id() -> str:
    """For servers that send none: a result must say which call it answers."""
    return f"call_{uuid.uuid4().hex[:24]}"


# ---------------------------------------------------------------- piece by piece


@dataclass(slots=True)
class _Open:
    """An item that was begun."""

    type: str
    name: str | None = None
    index: int = 0
    """Of a call: its place among the calls."""
    call_id: str = ""
    shown: list[str] = field(default_factory=list)
    """Pieces of text or arguments that went out."""
    whole: dict[str, Any] | None = None
    """The item, once it is finished."""


class Gathering:
    """A streamed answer while it comes in. Implements `http.Gathering`.

    What an item's last event holds beyond its pieces is shown with it, for servers that stream no pieces. Events and items of
    unknown kinds are passed over; the items are kept for the author.
    """

    def __init__(self, *, who: str, author: str = "") -> None:
        self.done = False
        self._who = who
        self._author = author
        self._items: dict[int, _Open] = {}
        self._calls = 0
        self._texts = 0
        """Messages that showed words."""
        self._end: _Response | None = None
        self._last = b""
        self._readers: dict[str, Callable[[bytes], ModelDelta | None]] = {
            "response.output_text.delta": self._text,
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
        read = self._readers.get(_shaped(data, _EVENT, self._who).type)
        return None if read is None else read(data)

    def end(self) -> None:
        if not self.done:
            raise ProviderProtocolError(f"{self._who} cut its stream before the answer was finished")

    def reply(self) -> ModelReply:
        if self._end is None:
            raise ProviderProtocolError(f"{self._who} streamed no answer")
        return _reply(self._end, list(self._output()), who=self._who, author=self._author, body=self._last)

    def _output(self) -> Iterator[dict[str, Any]]:
        """The items in the order they were begun."""
        for item in self._items.values():
            if item.whole is None:
                raise ProviderProtocolError(
                    f"{self._who} ended its stream with an unfinished {item.type}", body=self._last
                )
            yield {**item.whole, "call_id": item.call_id} if item.type == FUNCTION_CALL else item.whole

    # ---------------------------------------------------------------- events

    def _text(self, data: bytes) -> ModelDelta | None:
        event = _shaped(data, _TEXT, self._who)
        item = self._items.get(event.output_index)
        if item is None:
            item = self._items[event.output_index] = _Open(type=MESSAGE)
        elif item.type != MESSAGE or item.whole is not None:
            state = "finished " if item.whole is not None else ""
            raise ProviderProtocolError(f"{self._who} streamed words of a {state}{item.type}", body=data)
        return self._shown(item, event.delta)

    def _shown(self, item: _Open, text: str) -> ModelDelta | None:
        if not text:
            return None
        between = ""
        if not item.shown:
            between = _BETWEEN if self._texts else ""
            self._texts += 1
        item.shown.append(text)
        return ModelDelta(text=between + text)

    def _reasoning(self, data: bytes) -> ModelDelta:
        return ModelDelta(reasoning=_shaped(data, _TEXT, self._who).delta)

    def _summary_part(self, data: bytes) -> ModelDelta | None:
        return ModelDelta(reasoning=_BETWEEN) if _shaped(data, _SUMMARY_PART, self._who).summary_index else None

    def _added(self, data: bytes) -> ModelDelta | None:
        event = _shaped(data, _ITEM_EVENT, self._who)
        if event.output_index in self._items:
            raise ProviderProtocolError(f"{self._who} began two items at {event.output_index}", body=data)
        return self._begun(event.output_index, _item(event.item, self._who))

    def _begun(self, place: int, item: _Item) -> ModelDelta | None:
        opened = self._items[place] = _Open(type=item.type, name=item.name)
        if item.type != FUNCTION_CALL:
            return None
        call = _call(item, self._who)
        opened.index, opened.call_id = self._calls, call.id
        self._calls += 1
        opened.shown.append(item.arguments or "")
        return _delta(CallDelta(index=opened.index, id=call.id, name=call.name, arguments=item.arguments or ""))

    def _arguments(self, data: bytes) -> ModelDelta | None:
        event = _shaped(data, _ARGUMENTS, self._who)
        call = self._call_at(event.output_index, data)
        call.shown.append(event.delta)
        return _delta(CallDelta(index=call.index, arguments=event.delta)) if event.delta else None

    def _all_arguments(self, data: bytes) -> ModelDelta | None:
        event = _shaped(data, _ARGUMENTS, self._who)
        return self._rest(self._call_at(event.output_index, data), event.arguments, data)

    def _call_at(self, place: int, data: bytes) -> _Open:
        call = self._items.get(place)
        if call is None or call.type != FUNCTION_CALL:
            raise ProviderProtocolError(f"{self._who} streamed arguments of a call it never began", body=data)
        if call.whole is not None:
            raise ProviderProtocolError(f"{self._who} streamed arguments of a finished call", body=data)
        return call

    def _rest_of(self, item: _Open, whole: str, data: bytes) -> str:
        """What an item holds beyond its pieces. Raises if the pieces were others: they are with the caller already."""
        shown = "".join(item.shown)
        if not whole.startswith(shown):
            raise ProviderProtocolError(f"{self._who} streamed other pieces than its {item.type} is made of", body=data)
        return whole[len(shown) :]

    def _rest(self, call: _Open, arguments: str, data: bytes) -> ModelDelta | None:
        rest = self._rest_of(call, arguments, data)
        call.shown.append(rest)
        return _delta(CallDelta(index=call.index, arguments=rest)) if rest else None

    def _finished(self, data: bytes) -> ModelDelta | None:
        event = _shaped(data, _ITEM_EVENT, self._who)
        return self._closed(event.output_index, event.item, data)

    def _closed(self, place: int, raw: dict[str, Any], data: bytes) -> ModelDelta | None:
        """The item is finished: what of it was not shown yet."""
        item = _item(raw, self._who)
        opened = self._items.get(place)
        begun = None
        if opened is None:
            begun = self._begun(place, item)
            opened = self._items[place]
        if (opened.type, opened.name) != (item.type, item.name):
            raise ProviderProtocolError(
                f"{self._who} began a {opened.type} {opened.name or ''} and ended a {item.type} {item.name or ''}",
                body=data,
            )
        opened.whole = raw
        if item.type == MESSAGE:
            return self._shown(opened, self._rest_of(opened, _said([item])[0], data))
        return begun or (self._rest(opened, item.arguments or "", data) if item.type == FUNCTION_CALL else None)

    def _ended(self, data: bytes, *, status: str) -> ModelDelta | None:
        self._end, self._last, self.done = _shaped(data, _END, self._who).response, data, True
        self._end.status = status
        return None if status == "failed" else self._missed(self._end.output or [], data)

    def _missed(self, output: Sequence[dict[str, Any]], data: bytes) -> ModelDelta | None:
        """What only the last event holds: of items without an end of their own, or all of it where nothing was begun."""
        places = [place for place, item in self._items.items() if item.whole is None and 0 <= place < len(output)]
        found = [self._closed(place, output[place], data) for place in (places if self._items else range(len(output)))]
        shown = [delta for delta in found if delta is not None]
        if not shown:
            return None
        calls = tuple(piece for delta in shown for piece in delta.calls)
        return ModelDelta(text="".join(delta.text for delta in shown), calls=calls)

    def _broken(self, data: bytes) -> None:
        """An error event; some servers leave its type out."""
        event = _shaped(data, _FAILURE, self._who)
        if not event.type and event.error is None:
            raise ProviderProtocolError(f"{self._who} streamed an event without a type", body=data)
        error = event.error or _Error(message=event.message, code=event.code)
        raise _failed(error, self._who, data, status=event.status)


def _delta(call: CallDelta) -> ModelDelta:
    return ModelDelta(calls=(call,))
