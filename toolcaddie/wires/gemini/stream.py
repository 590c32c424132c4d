"""Reader of Gemini's answers, whole or streamed, used by the Gemini provider.

An answer is a list of parts: a text, a thought, a tool call, a picture. Each event of a stream has the format of a whole answer
and contains only the parts, or pieces of text, that are new. In all functions `who` is the provider's name for error messages,
and `author` is the `provider:model` that is stored with the message (`Message.author`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.content import Content, blocks_of
from toolcaddie.core.errors import ProviderAuthError, ProviderError, ProviderProtocolError, ProviderRejectedError
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.gemini.content import read_picture
from toolcaddie.wires.gemini.replies import Candidate, WireUsage, new_call_id, read_answer, read_usage

_FILTERED = frozenset(
    {
        *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)
"""Gemini's finish reasons for an answer that a filter blocked."""
_FINISHED = {"MAX_TOKENS": "length", "CONTINUATION": "length", **dict.fromkeys(_FILTERED, "content_filter")}
"""Our finish reason for each of Gemini's; a reason that is not here keeps Gemini's word. `STOP` is treated separately."""
_FAILED: Mapping[str, type[ProviderError]] = {
    "MALFORMED_FUNCTION_CALL": ProviderProtocolError,  # the model wrote a malformed call; a retry may succeed
    "MALFORMED_RESPONSE": ProviderProtocolError,
    "UNEXPECTED_TOOL_CALL": ProviderProtocolError,
    "MISSING_THOUGHT_SIGNATURE": ProviderRejectedError,
    "PUP_LIMITED_DISABLED": ProviderAuthError,
}
"""The exception for each finish reason that means that there is no answer."""
_PLAIN_TEXT = ({"text"}, {"text", "thought"})
"""Keys of a part that is a piece of text and nothing else, so that it can be joined with its neighbours."""


def read_reply(body: bytes, *, who: str, author: str) -> ModelReply:
    """Returns the answer in a whole body. Raises `ProviderError` if it is an error or has no answer."""
    reader = GeminiReader(who=who, author=author)
    reader.add(body)
    return reader.reply()


class GeminiReader:
    """Reads an answer, whole or streamed. Implements `ports.wires.StreamReader`.

    A stream has no closing event, so it is read to its end. It is complete if there was a finish reason; some models send one
    with every event.
    """

    def __init__(self, *, who: str, author: str = "") -> None:
        self.done = False
        """True after the end of the body, if that was not too early."""
        self._who = who
        self._author = author
        self._native: list[JsonObject] = []
        """Parts of the answer in Gemini's own form (`Message.native`), which a later request sends back unchanged."""
        self._text: list[str] = []
        """Pieces of the visible text, without thoughts."""
        self._open_text: list[str] = []
        """Consecutive pieces of text, or of thoughts, that will be joined into one part of `_native`."""
        self._open_thinks = False
        """True: the pieces in `_open_text` are thoughts."""
        self._calls: list[ToolCall] = []
        self._answered = False
        """True if there was a candidate, which is Gemini's word for an answer."""
        self._has_parts = False
        """True if there was a part, even one with an empty text."""
        self._finish: str | None = None
        self._finish_message = ""
        self._blocked = False
        """True if Gemini refused the prompt."""
        self._usage = WireUsage()
        self._model = ""

    def add(self, data: bytes) -> ModelDelta | None:
        """Reads an event. None: it has nothing for the caller, only usage or the finish reason."""
        answer = read_answer(data, self._who)
        if answer.usage_metadata is not None:
            self._usage = answer.usage_metadata
        if answer.model_version:
            self._model = answer.model_version
        if answer.prompt_feedback is not None and answer.prompt_feedback.block_reason:
            self._blocked = True
        for candidate in answer.candidates or ():
            if not candidate.index:  # the first of several candidates is the answer
                return self._take(candidate)
        return None

    def end(self) -> None:
        """Marks the end of the body. Raises `ProviderProtocolError` if the stream was cut off before its finish reason."""
        if self._answered and self._finish is None:
            raise ProviderProtocolError(f"{self._who} cut its stream before the answer was finished")
        self.done = True

    def _take(self, candidate: Candidate) -> ModelDelta | None:
        """Stores the new parts of the answer. Returns their text, thoughts and calls; None: there are none."""
        self._answered = True
        if candidate.finish_reason is not None:
            self._finish = candidate.finish_reason
            self._finish_message = candidate.finish_message or ""
        parts = candidate.content.parts if candidate.content is not None else None
        if not parts:
            return None
        self._has_parts = True
        text: list[str] = []
        thoughts: list[str] = []
        calls: list[CallDelta] = []
        for part in parts:
            if part.get("functionCall") is not None:
                calls.append(self._call(part))
            elif part.get("text") is not None:
                (thoughts if part.get("thought") else text).append(self._words(part))
            else:  # pictures, code that the provider runs itself, future kinds
                self._keep(part)
        if not (text or thoughts or calls):
            return None
        self._text.extend(text)
        return ModelDelta(text="".join(text), calls=tuple(calls), reasoning="".join(thoughts))

    def _words(self, part: dict[str, Any]) -> str:
        """Returns the text of a text part. Stores the part: plain text is joined with its neighbours, and a part with more fields
        (such as a signature) stays whole."""
        words = part["text"]
        if not isinstance(words, str):
            raise self._unknown_shape("a text that is not a string", part)
        thinks = bool(part.get("thought"))
        if part.keys() not in _PLAIN_TEXT:
            self._keep(part)
        else:
            if thinks is not self._open_thinks:
                self._close_text()
                self._open_thinks = thinks
            self._open_text.append(words)
        return words

    def _keep(self, part: JsonObject) -> None:
        """Stores a part unchanged, after the text before it."""
        self._close_text()
        self._native.append(part)

    def _close_text(self) -> None:
        """Joins the open pieces of text into one part of `_native`."""
        words = "".join(self._open_text)
        self._open_text.clear()
        if words:
            self._native.append({"text": words, "thought": True} if self._open_thinks else {"text": words})

    def _call(self, part: dict[str, Any]) -> CallDelta:
        """Stores a tool call. Returns it as one delta, because Gemini sends every call whole."""
        wire = part["functionCall"]
        if not isinstance(wire, dict):
            raise self._unknown_shape("a tool call that is not an object", part)
        name, arguments, call_id = wire.get("name"), wire.get("args"), wire.get("id")
        if not isinstance(name, str) or not name:
            raise self._unknown_shape("a tool call without a name", part)
        if not isinstance(arguments, dict | None) or not isinstance(call_id, str | None):
            raise self._unknown_shape("a tool call whose id or arguments are of the wrong type", part)
        if wire.get("partialArgs") or wire.get("willContinue"):
            raise self._unknown_shape("a tool call in pieces, which was not requested", part)
        call = ToolCall(id=call_id or new_call_id(), name=name, arguments=ENCODER.encode(arguments or {}).decode())
        self._keep(part)
        self._calls.append(call)
        return CallDelta(index=len(self._calls) - 1, id=call.id, name=name, arguments=call.arguments)

    def _unknown_shape(self, what: str, part: JsonObject) -> ProviderProtocolError:
        return ProviderProtocolError(f"{self._who} answered in an unknown shape: {what}", body=ENCODER.encode(part))

    def reply(self) -> ModelReply:
        """Returns the whole answer. For a blocked prompt it has no text and the finish reason 'content_filter'.

        Raises `ProviderProtocolError` if there was no answer, or the exception for a finish reason that means a failure.
        """
        if not self._answered and not self._blocked:
            raise ProviderProtocolError(f"{self._who} answered without a candidate")
        failed = _FAILED.get(self._finish or "")
        if failed is not None:
            raise failed(f"{self._who} stopped without an answer: {self._finish} {self._finish_message}".rstrip())
        if not self._has_parts and not self._blocked and self._finish in (None, "STOP"):
            raise ProviderProtocolError(f"{self._who} answered without any content")
        self._close_text()
        return ModelReply(
            message=Message(
                role="assistant",
                content=self._content(),
                tool_calls=tuple(self._calls),
                native=tuple(self._native),
                author=self._author,
            ),
            finish_reason=self._finish_reason(),
            usage=read_usage(self._usage),
            model=self._model,
        )

    def _finish_reason(self) -> str:
        if self._finish in (None, "STOP"):
            if not self._answered:
                return "content_filter"
            return "tool_calls" if self._calls else "stop"
        return _FINISHED.get(self._finish, self._finish)

    def _content(self) -> Content | None:
        text = "".join(self._text)
        pictures = [picture for part in self._native if (picture := read_picture(part))]
        if pictures:
            return (*blocks_of(text), *pictures)
        return text if text or not self._calls else None
