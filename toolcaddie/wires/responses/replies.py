"""A whole answer of the Responses API: read from a provider, written by a door.

Door: the side where clients send requests to us. Provider: the side where we send requests to a model server. In all functions
`who` is the provider's name for error messages, and `author` the `provider:model` stored with the message.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import Message, ModelReply, RawBody
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead
from toolcaddie.wires.bodies import ENCODER, UNREADABLE, count, decoded, other_fields, raw_fields, with_unknown
from toolcaddie.wires.responses.errors import ErrorInside, failure
from toolcaddie.wires.responses.messages import BETWEEN, MESSAGE, REASONING
from toolcaddie.wires.responses.own_calls import FUNCTION_CALL, call_fields, is_call, own_call

_FINISHES = {"max_output_tokens": "length"}
"""Our finish reason for each reason of an incomplete answer; a reason that is not here keeps its name."""
_OURS = frozenset(
    {
        *("id", "object", "created_at", "model", "output", "status", "error", "incomplete_details"),
        *("instructions", "previous_response_id", "store", "tool_choice", "tools"),
    }
)
"""Fields that a door writes itself and never passes on from a provider: the answer, and fields in which the provider repeats
the request that it got from us."""
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons of an incomplete answer, by our finish reasons."""


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


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class WireResponse(msgspec.Struct):
    output: list[dict[str, Any]] | None = None
    status: str | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: ErrorInside | None = None
    incomplete_details: _Incomplete | None = None


class _Whole(WireResponse):
    object: str | None = None


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class WireItem(msgspec.Struct):
    """The fields of an item that are read; the item itself is kept unchanged."""

    type: str
    name: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    content: list[_Part] | None = None
    is_call: bool = False
    """True for a call that the client answers. Its name and arguments are those of a function."""


Shape = TypeVar("Shape")

_WHOLE = msgspec.json.Decoder(_Whole)


def shaped(data: bytes, decoder: msgspec.json.Decoder[Shape], who: str) -> Shape:
    """Decodes a body or an event. Raises `ProviderProtocolError` if its fields have other types than `Shape` says."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        decoded(data, who=who)  # raises a better message for text that is not JSON, and for an error object
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error}", body=data) from error


def read_item(raw: dict[str, Any], who: str, namespaces: Collection[str] = ()) -> WireItem:
    """Returns the fields of an item that Toolcaddie reads. Only calls and messages have such fields; of any other item, only the
    type is returned. `who`: the provider's name for error messages. `namespaces`: those of the request.

    Raises `ProviderProtocolError` if a field has the wrong type."""
    fields: dict[str, Any] = {"type": raw.get("type")}
    if raw.get("type") == MESSAGE:
        fields["content"] = raw.get("content")
    elif is_call(raw):
        name, arguments = call_fields(raw, namespaces)
        fields |= {"name": name, "arguments": arguments, "call_id": raw.get("call_id"), "is_call": True}
    try:
        return msgspec.convert(fields, WireItem)
    except msgspec.ValidationError as error:
        body = msgspec.json.encode(raw)
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error} of an item", body=body) from error


# ---------------------------------------------------------------- from a provider


def read_reply(body: bytes, *, who: str, author: str, namespaces: Collection[str] = ()) -> ModelReply:
    """Returns the answer in a body. `namespaces`: those of the request. Raises `ProviderError`, of the class that fits the error
    in a failed answer."""
    answer = shaped(body, _WHOLE, who)
    if answer.output is None and answer.object != "response":
        decoded(body, who=who)  # an error object
        raise ProviderProtocolError(f"{who} answered in an unknown shape: there is no output", body=body)
    items = [read_item(raw, who, namespaces) for raw in answer.output or []]
    return reply_from(answer, answer.output or [], items, who=who, author=author, body=body, raw=raw_body(lambda: body))


def raw_body(response: Callable[[], bytes]) -> RawBody:
    """Returns the fields of a response that a door passes on unchanged. `response` returns the body; it is called only when the
    fields are read."""
    return RawBody(wire="responses", fields=lambda: other_fields(response(), _OURS))


def reply_from(
    answer: WireResponse,
    output: Sequence[dict[str, Any]],
    items: Sequence[WireItem],
    *,
    who: str,
    author: str,
    body: bytes,
    raw: RawBody,
) -> ModelReply:
    """Returns the reply for an answer whose items are `output`; `items` are their fields. `body`: the bytes that an error quotes.
    `raw`: the fields for `ModelReply.raw`. Raises `ProviderError` for an answer that failed or has no message and no call."""
    if answer.status == "failed" or (answer.error is not None and answer.status is None):
        raise failure(answer.error or ErrorInside(), who, body)
    if answer.status not in (None, "completed", "incomplete"):
        raise ProviderProtocolError(
            f"{who} answered with an unfinished response: its status is {answer.status!r}", body=body
        )
    if answer.status != "incomplete" and not any(item.type != REASONING for item in items):
        raise ProviderProtocolError(f"{who} answered without a message or a call", body=body)
    calls = tuple(read_call(item, who) for item in items if item.is_call)
    text, refusal = texts_of(items)
    return ModelReply(
        message=Message(
            role="assistant",
            content=text or (None if calls else ""),
            tool_calls=calls,
            extra={"refusal": refusal} if refusal else None,
            native=tuple(output),
            author=author,
        ),
        finish_reason=finish_of(answer, calls),
        usage=read_usage(answer.usage),
        model=answer.model or "",
        raw=raw,
    )


def read_call(item: WireItem, who: str) -> ToolCall:
    if not item.name:
        raise ProviderProtocolError(f"{who} answered with a tool call without a name")
    return ToolCall(id=item.call_id or new_call_id(), name=item.name, arguments=item.arguments or "{}")


def texts_of(items: Sequence[WireItem]) -> tuple[str, str]:
    """Returns two texts: the joined texts of all messages, and the joined texts of all refusals."""
    parts = [item.content or [] for item in items if item.type == MESSAGE]
    texts = ("".join(part.text or "" for part in message if part.type == "output_text") for message in parts)
    return BETWEEN.join(filter(None, texts)), "".join(part.refusal or "" for message in parts for part in message)


def finish_of(answer: WireResponse, calls: Sequence[ToolCall]) -> str:
    """Returns the finish reason in the words of `ModelReply.finish_reason`."""
    if answer.status == "incomplete":
        reason = (answer.incomplete_details and answer.incomplete_details.reason) or "incomplete"
        return _FINISHES.get(reason, reason)
    return "tool_calls" if calls else "stop"


def read_usage(counts: _Usage | None) -> Usage:
    """Returns the provider's token counts as a `Usage`. A missing count is 0.

    Both count alike: input includes the tokens read from and written to the prompt cache, and output includes reasoning.
    """
    if counts is None:
        return Usage()
    input_ = counts.input_tokens_details or _InputDetails()
    output = counts.output_tokens_details or _OutputDetails()
    return Usage(
        input_tokens=count(counts.input_tokens),
        output_tokens=count(counts.output_tokens),
        cached_tokens=count(input_.cached_tokens),
        written_tokens=count(input_.cache_write_tokens),
        reasoning_tokens=count(output.reasoning_tokens),
    )


def new_call_id() -> str:
    """Returns an id for a call whose server sent none, because a result must name its call."""
    return f"call_{uuid.uuid4().hex[:24]}"


# ---------------------------------------------------------------- by a door


def write_reply(reply: ModelReply, head: AnswerHead) -> bytes:
    return ENCODER.encode(response_of(reply, head, list(write_items(reply.message, head))))


def response_of(reply: ModelReply, head: AnswerHead, output: Sequence[JsonObject]) -> dict[str, Any]:
    """Returns the response object for a whole answer. If the answer came from a server of this API too, fields of that server
    replace the usual values."""
    reason = _REASONS.get(reply.finish_reason)
    begun, theirs = begun_response(head), raw_fields(reply, "responses")
    return {
        **begun,
        **{name: value for name, value in theirs.items() if value is not None or name not in begun},
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "model": reply.model or head.model,
        "output": output,
        "usage": with_unknown(write_usage(reply.usage), theirs.get("usage")),
    }


def response_id_of(answer_id: str) -> str:
    """Returns the id of the response of an answer."""
    return f"resp_{answer_id}"


def begun_response(head: AnswerHead) -> dict[str, Any]:
    """Returns the response object as the first event of a stream shows it: in progress and without output."""
    return {
        "id": response_id_of(head.id),
        "object": "response",
        "created_at": head.created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": head.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        **head.echo,
    }


def write_items(message: Message, head: AnswerHead) -> Iterator[JsonObject]:
    """Yields the items of an answer: the original items if it came over this API, else new items for its text and calls."""
    if message.native:
        yield from (own_call(item, head.own_forms) for item in message.native)
        return
    refusal = (message.extra or {}).get("refusal")
    if message.content is not None or refusal:
        yield message_item(f"msg_{head.id}", text=message.text, refusal=refusal or "")
    for place, call in enumerate(message.tool_calls):
        yield own_call(call_item(call, f"fc_{head.id}_{place}"), head.own_forms)


def message_item(item_id: str, *, text: str = "", refusal: str = "") -> dict[str, Any]:
    parts: list[JsonObject] = []
    if text or not refusal:
        parts.append({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
    if refusal:
        parts.append({"type": "refusal", "refusal": refusal})
    return {"id": item_id, "type": MESSAGE, "status": "completed", "role": "assistant", "content": parts}


def call_item(call: ToolCall, item_id: str) -> dict[str, Any]:
    return {
        "id": item_id,
        "type": FUNCTION_CALL,
        "status": "completed",
        "arguments": call.arguments,
        "call_id": call.id,
        "name": call.name,
    }


def reasoning_item(item_id: str, text: str, *, encrypted: str | None = None) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": item_id, "type": REASONING, "summary": summary, "encrypted_content": encrypted}


def write_usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.written_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
