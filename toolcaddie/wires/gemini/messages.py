"""Conversion of conversations to Gemini's `contents`: turns of `user` and `model`, each a list of parts (texts, calls, results).
A signature is Gemini's proof, on a part, that its own model wrote the part.

Gemini matches calls and results by position: a turn with calls is followed by a turn with as many results, in the
same order.
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
"""Signature that Gemini accepts on a call that no Gemini model made (ai.google.dev/gemini-api/docs/thought-signatures, FAQ)."""

_SYSTEM = ("system", "developer")
_CONTINUES = "(The conversation goes on.)"
"""Text of a user's turn at the beginning or end, because a conversation cannot be empty, begin with the model, or (since
Gemini 3) end with it."""
_NO_TEXT = "(no text)"
"""Text of a user's message without any, because Gemini refuses a part without text, and a turn without parts."""
_NOTE = "[System note]"
_INTERRUPTED = "There is no result: the turn was interrupted before it came."
_BEFORE_SIGNATURES = re.compile(r"(models/)?(gemini-[12](?!\d)|gemma-)")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def wants_signatures(model: str) -> bool:
    """Returns True if the model refuses calls without a signature in its history: Gemini 3 and later, and any unknown model."""
    return _BEFORE_SIGNATURES.match(model) is None


def conversation(messages: Sequence[Message], *, model: str, author: str) -> tuple[list[Part], list[JsonObject]]:
    """Returns the parts of the system instruction (from the leading system messages), and the contents.

    `author`: the provider and model, as in `Message.author`. Raises `RequestError` for a message that Gemini cannot express.
    """
    messages = [message for message in messages if not is_empty_note(message)]
    spoken_at = next((at for at, message in enumerate(messages) if message.role not in _SYSTEM), len(messages))
    system = [part for message in messages[:spoken_at] for part in _words(message)]
    turns = _Turns()
    for reply, following in _stretches(messages[spoken_at:]):
        calls: list[_SentCall] = []
        if reply is not None:
            parts = _reply_parts(reply, author)
            turns.add("model", _signed(parts) if wants_signatures(model) else parts)
            calls = _sent_calls(reply, parts)
        results, media = _results(calls, following, model)
        turns.add_results(results)
        turns.add("user", media)
        for message in following:
            if message.role != "tool":
                turns.add("user", _user_parts(message))
    return system, turns.between_users(prefill=not wants_signatures(model))


class _Turns:
    """Builds the contents. Consecutive messages of one role become one turn, but parts are never joined, because a signature
    belongs to one part. Results have a turn of their own: among other parts Gemini does not match them with the calls, and
    refuses the request as one that ends with the model."""

    def __init__(self) -> None:
        self._contents: list[dict[str, Any]] = []
        self._growing = ""
        """Role of the last turn, if further messages with this role are added to it; empty: the next message begins a turn."""

    def add(self, role: str, parts: Sequence[Part]) -> None:
        if not parts:
            return
        if self._growing == role:
            self._contents[-1]["parts"].extend(parts)
        else:
            self._contents.append({"role": role, "parts": [*parts]})
            self._growing = role

    def add_results(self, parts: Sequence[Part]) -> None:
        if parts:
            self._contents.append({"role": "user", "parts": parts})
            self._growing = ""

    def between_users(self, *, prefill: bool) -> list[JsonObject]:
        """Returns all turns. The first and the last are the user's; with `prefill` the last may be the model's, which continues
        it."""
        if not self._contents or self._contents[0]["role"] == "model":
            self._contents.insert(0, _continues())
        if self._contents[-1]["role"] == "model" and not prefill:
            self._contents.append(_continues())
        return [*self._contents]


def _continues() -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": _CONTINUES}]}


def _stretches(messages: Sequence[Message]) -> Iterator[tuple[Message | None, list[Message]]]:
    """Yields each reply of the model with the messages before the next one; the first pair
    has None and the messages before any reply."""
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
class _SentCall:
    """A call as it is sent to Gemini. `wire_id` None: the call and its result are sent without an id."""

    call: ToolCall
    wire_id: str | None


def _reply_parts(message: Message, author: str) -> list[Part]:
    if message.native and message.author == author:
        own = _native_parts(message)
        if own is not None:
            return own
    return [*write_parts(message), *map(_call_part, message.tool_calls)]


def _native_parts(message: Message) -> list[Part] | None:
    """Returns the native parts, with our ids of the calls; None: the calls were changed, so that the parts no longer match the
    message."""
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


def _sent_calls(message: Message, parts: Sequence[Part]) -> list[_SentCall]:
    wires = [part["functionCall"] for part in parts if part.get("functionCall") is not None]
    return [_SentCall(call, wire.get("id")) for call, wire in zip(message.tool_calls, wires, strict=True)]


def _call_part(call: ToolCall) -> Part:
    return {"functionCall": {"name": call.name, "args": call_arguments(call)}}


def call_arguments(call: ToolCall) -> JsonObject:
    """Returns the arguments as an object. Text that is not an object, by a model's mistake or for a custom tool,
    becomes the only field of one."""
    if call.extra and "type" in call.extra:
        return {"input": call.arguments}
    try:
        return _FIELDS.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"not_an_object": call.arguments}


def _signed(parts: list[Part]) -> list[Part]:
    """Returns the parts with `UNSIGNED` on the first call if that has no signature.

    Gemini checks only the turns after the user's last message. All turns get it nevertheless, because a turn that
    is changed in a later request would invalidate the provider's cache from there on.
    """
    for at, part in enumerate(parts):
        if part.get("functionCall") is not None:
            if part.get("thoughtSignature"):
                return parts
            return [*parts[:at], {**part, "thoughtSignature": UNSIGNED}, *parts[at + 1 :]]
    return parts


# ---------------------------------------------------------------- the user's turns


def _results(calls: Sequence[_SentCall], following: Sequence[Message], model: str) -> tuple[list[Part], list[Part]]:
    """Returns a result for each call, in the order of the calls, and the media that results cannot contain. Raises
    `RequestError` for a result without a call."""
    waiting: dict[str | None, deque[Message]] = {}
    for message in following:
        if message.role == "tool":
            waiting.setdefault(message.tool_call_id, deque()).append(message)
    results: list[Part] = []
    beside: list[Part] = []
    for sent_call in calls:
        messages = waiting.get(sent_call.call.id)
        part, media = _result(sent_call, messages.popleft() if messages else None, inside=wants_signatures(model))
        results.append(part)
        beside.extend(media)
    for call_id, unused in waiting.items():
        if unused:
            raise RequestError(
                f"the tool result for call {call_id!r} does not follow a message with that call, or answers it twice",
                param="messages",
            )
    return results, beside


def _result(sent_call: _SentCall, message: Message | None, *, inside: bool) -> tuple[Part, list[Part]]:
    """Returns the result of a call, and the media that must be sent separately from it.

    `inside`: the model accepts media as parts of the result; Gemini 2 does not.
    """
    wire: dict[str, Any] = {"name": sent_call.call.name}
    if sent_call.wire_id:
        wire["id"] = sent_call.wire_id
    if message is None:
        return {"functionResponse": {**wire, "response": {"error": _INTERRUPTED}}}, []
    parts = write_parts(message)
    media = [part for part in parts if "text" not in part]
    text = "\n".join(part["text"] for part in parts if "text" in part)
    wire["response"] = {"error" if message.is_error else "output": text}
    if media and inside:
        wire["parts"], media = media, []
    return {"functionResponse": wire}, media


def _user_parts(message: Message) -> list[Part]:
    if message.role in _SYSTEM:
        return [{"text": f"{_NOTE}\n{part['text']}"} for part in _words(message)]
    if message.role != "user":
        raise RequestError(f"Gemini does not accept messages with role {message.role!r}", param="messages")
    return write_parts(message) or [{"text": _NO_TEXT}]


def _words(message: Message) -> list[Part]:
    """Returns the parts of a system message, which can only be text."""
    parts = write_parts(message)
    if any("text" not in part for part in parts):
        raise RequestError(f"Gemini accepts only text in a {message.role} message", param="messages")
    return parts
