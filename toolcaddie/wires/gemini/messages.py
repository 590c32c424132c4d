"""A conversation as Gemini's contents: turns of `user` and `model`, each a list of parts. Pure: no I/O.

Gemini ties a call and its results together by place: the turn after one with calls holds as many results, in the same
order.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message, is_empty_note
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.wires.gemini.content import Part, write_parts

UNSIGNED = "skip_thought_signature_validator"
"""Stands for the signature of a call that no Gemini model made (ai.google.dev/gemini-api/docs/thought-signatures,
FAQ)."""

_SYSTEM = ("system", "developer")
_CONTINUES = "(The conversation goes on.)"
"""Where no user speaks first, or last: a conversation cannot begin with the model, nor be empty, nor (from Gemini 3 on)
end with the model."""
_NO_TEXT = "(no text)"
"""Where the user said nothing: a part without text is refused, and so is a turn without parts."""
_NOTE = "[System note]"
_INTERRUPTED = "There is no result: the turn was interrupted before it came."
_BEFORE_SIGNATURES = re.compile(r"(models/)?(gemini-[12](?!\d)|gemma-)")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def wants_signatures(model: str) -> bool:
    """Returns whether the model refuses calls in its history that carry no signature: Gemini 3 and later, and any name
    we do not know."""
    return _BEFORE_SIGNATURES.match(model) is None


def conversation(messages: Sequence[Message], *, model: str, author: str) -> tuple[list[Part], list[JsonObject]]:
    """Returns the parts of the system instruction (from the system messages that lead), and the contents.

    `author` is who is asked, as `Message.author` says it. Raises `RequestError` for what Gemini has no way to say.
    """
    messages = [message for message in messages if not is_empty_note(message)]
    spoken_at = next((at for at, message in enumerate(messages) if message.role not in _SYSTEM), len(messages))
    system = [part for message in messages[:spoken_at] for part in _words(message)]
    turns = _Turns()
    for reply, following in _stretches(messages[spoken_at:]):
        calls: list[_Sent] = []
        if reply is not None:
            parts = _reply_parts(reply, author)
            turns.add("model", _signed(parts) if wants_signatures(model) else parts)
            calls = _sent_calls(reply, parts)
        results, media = _results(calls, following, model)
        turns.add_results(results)
        turns.add("user", media)
        for message in following:
            if message.role != "tool":
                turns.add("user", _said(message))
    return system, turns.between_users(prefill=not wants_signatures(model))


class _Turns:
    """Contents in the making. What the same side says twice in a row is one turn; parts are never joined, because a
    signature belongs to exactly the part it came with. Results stand in a turn of their own: beside other parts they
    are not taken for the answer to the calls, and the request is refused for ending with the model."""

    def __init__(self) -> None:
        self._found: list[dict[str, Any]] = []
        self._growing = ""
        """The role whose words would join the last turn."""

    def add(self, role: str, parts: Sequence[Part]) -> None:
        if not parts:
            return
        if self._growing == role:
            self._found[-1]["parts"].extend(parts)
        else:
            self._found.append({"role": role, "parts": [*parts]})
            self._growing = role

    def add_results(self, parts: Sequence[Part]) -> None:
        if parts:
            self._found.append({"role": "user", "parts": parts})
            self._growing = ""

    def between_users(self, *, prefill: bool) -> list[JsonObject]:
        """All turns, the first and the last of them the user's. `prefill`: the last may be the model's, which goes on
        with it."""
        if not self._found or self._found[0]["role"] == "model":
            self._found.insert(0, _continues())
        if self._found[-1]["role"] == "model" and not prefill:
            self._found.append(_continues())
        return [*self._found]


def _continues() -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": _CONTINUES}]}


def _stretches(messages: Sequence[Message]) -> Iterator[tuple[Message | None, list[Message]]]:
    """Each reply of the model with all that comes before the next one; first what comes before any (None)."""
    reply: Message | None = None
    following: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            yield reply, following
            reply, following = message, []
        else:
            following.append(message)
    yield reply, following


# ---------------------------------------------------------------- the model's turns


@dataclass(frozen=True, slots=True)
class _Sent:
    """A call as it stands in the contents. `wire_id` None: it carries none there, and so does its result."""

    call: ToolCall
    wire_id: str | None


def _reply_parts(message: Message, author: str) -> list[Part]:
    if message.native and message.author == author:
        own = _own_parts(message)
        if own is not None:
            return own
    return [*write_parts(message), *map(_call_part, message.tool_calls)]


def _own_parts(message: Message) -> list[Part] | None:
    """Returns the parts as the model gave them, its calls under the ids they have with us; None: somebody has changed
    the calls, so the parts no longer say what the message says."""
    parts: list[Part] = []
    calls = iter(message.tool_calls)
    for part in message.native:
        wire = part.get("functionCall")
        if wire is not None:
            call = next(calls, None)
            if call is None or call.name != wire.get("name"):
                return None
            if wire.get("id") and wire["id"] != call.id:
                part = {**part, "functionCall": {**wire, "id": call.id}}
        parts.append(part)
    return parts if next(calls, None) is None else None


def _sent_calls(message: Message, parts: Sequence[Part]) -> list[_Sent]:
    wires = [part["functionCall"] for part in parts if part.get("functionCall") is not None]
    return [_Sent(call, wire.get("id")) for call, wire in zip(message.tool_calls, wires, strict=True)]


def _call_part(call: ToolCall) -> Part:
    return {"functionCall": {"name": call.name, "args": call_arguments(call)}}


def call_arguments(call: ToolCall) -> JsonObject:
    """Gemini's arguments are an object. What is none, a model's slip or the text of a custom tool, is shown inside of
    one."""
    if call.extra and "type" in call.extra:
        return {"input": call.arguments}
    try:
        return _FIELDS.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"not_an_object": call.arguments}


def _signed(parts: list[Part]) -> list[Part]:
    """Returns the parts with the stand-in on the first call where that has no signature of its own.

    On every turn, though only those since the user last spoke are looked at: a turn that changed later would end the
    cached prefix there.
    """
    for at, part in enumerate(parts):
        if part.get("functionCall") is not None:
            if part.get("thoughtSignature"):
                return parts
            return [*parts[:at], {**part, "thoughtSignature": UNSIGNED}, *parts[at + 1 :]]
    return parts


# ---------------------------------------------------------------- the user's turns


def _results(calls: Sequence[_Sent], following: Sequence[Message], model: str) -> tuple[list[Part], list[Part]]:
    """Returns a result for each call, in the order of the calls, and the media that cannot stand in them. Raises
    `RequestError` for a result that belongs to no call."""
    waiting: dict[str | None, deque[Message]] = {}
    for message in following:
        if message.role == "tool":
            waiting.setdefault(message.tool_call_id, deque()).append(message)
    results: list[Part] = []
    beside: list[Part] = []
    for sent in calls:
        found = waiting.get(sent.call.id)
        part, media = _result(sent, found.popleft() if found else None, inside=wants_signatures(model))
        results.append(part)
        beside.extend(media)
    for call_id, left in waiting.items():
        if left:
            raise RequestError(
                f"the tool result for call {call_id!r} does not follow a message with that call, or answers it twice",
                param="messages",
            )
    return results, beside


def _result(sent: _Sent, message: Message | None, *, inside: bool) -> tuple[Part, list[Part]]:
    """Returns the result, and the media of it that stand outside. `inside`: the model takes them as parts of the
    result; Gemini 2 does not."""
    wire: dict[str, Any] = {"name": sent.call.name}
    if sent.wire_id:
        wire["id"] = sent.wire_id
    if message is None:
        return {"functionResponse": {**wire, "response": {"error": _INTERRUPTED}}}, []
    parts = write_parts(message)
    media = [part for part in parts if "text" not in part]
    text = "\n".join(part["text"] for part in parts if "text" in part)
    wire["response"] = {"error" if message.is_error else "output": text}
    if media and inside:
        wire["parts"], media = media, []
    return {"functionResponse": wire}, media


def _said(message: Message) -> list[Part]:
    if message.role in _SYSTEM:
        return [{"text": f"{_NOTE}\n{part['text']}"} for part in _words(message)]
    if message.role != "user":
        raise RequestError(f"Gemini knows no messages of role {message.role!r}", param="messages")
    return write_parts(message) or [{"text": _NO_TEXT}]


def _words(message: Message) -> list[Part]:
    """Returns the parts of a system message, which hold nothing but text."""
    parts = write_parts(message)
    if any("text" not in part for part in parts):
        raise RequestError(f"Gemini takes only text in a {message.role} message", param="messages")
    return parts
