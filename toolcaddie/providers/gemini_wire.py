"""Gemini's generateContent and our words, translated both ways. Pure: no I/O; the conversation's turns are made in
`gemini_contents`, the parameters in `gemini_settings`.

Facts are those of ai.google.dev/api and of the official package, 3.4: camel case throughout, arguments of calls as objects,
a stream of partial answers without a closing event.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from toolcaddie.core.content import Content, Image, blocks_of
from toolcaddie.core.errors import (
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRejectedError,
    RequestError,
)
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest, Usage
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.providers.gemini_contents import conversation
from toolcaddie.providers.gemini_settings import json_output, object_of, settings
from toolcaddie.wires.bodies import ENCODER, UNREADABLE, decoded, error_message, kind_of

# ---------------------------------------------------------------- out


def request_body(request: ModelRequest, *, model: str, author: str) -> bytes:
    """The body of a request to `model`. `author`: who is asked, as `Message.author` says it.

    Raises `RequestError` for what this API cannot be asked.
    """
    if request.deferred:
        raise RequestError("Gemini cannot hold definitions back until they are revealed", param="tools")
    system, contents = conversation(request.messages, model=model, author=author)
    body: dict[str, Any] = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": system}
    declarations, others = _tools(request.tools)
    if declarations or others:
        body["tools"] = [{"functionDeclarations": declarations}, *others] if declarations else others
    config, more = settings(request.params or {}, model)
    if request.output_schema is not None:
        config.pop("responseSchema", None)
        config.update(json_output(request.output_schema))
    calling = _calling(request)
    if calling == {"mode": "AUTO"} and (others or "responseMimeType" in config):
        calling = None  # beside those the provider's own default is another mode, which leaves the choice free as well
    if calling is not None and (declarations or calling["mode"] == "ANY"):
        body["toolConfig"] = {**object_of(more, "toolConfig"), "functionCallingConfig": calling}
    if config:
        body["generationConfig"] = config
    return ENCODER.encode({**more, **body})


class _Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw()


class _Definition(msgspec.Struct):
    type: str | None = None
    function: _Function | None = None


_DEFINITION = msgspec.json.Decoder(_Definition)


def _tools(tools: Iterable[Any]) -> tuple[list[JsonObject], list[Any]]:
    """The functions, and what is a tool of the provider's own (`{"googleSearch": {}}`) and goes out as it is."""
    declarations: list[JsonObject] = []
    others: list[Any] = []
    for tool in tools:
        declared = _of_bytes(tool) if isinstance(tool, msgspec.Raw) else _of_mapping(tool)
        if declared is None:
            others.append(tool)
        else:
            declarations.append(declared)
    return declarations, others


def _of_bytes(tool: msgspec.Raw) -> JsonObject | None:
    """Of a definition that is encoded already; its schema is copied as it is."""
    try:
        read = _DEFINITION.decode(tool)
    except msgspec.DecodeError as error:
        raise RequestError(f"a tool is not in OpenAI's function format: {error}", param="tools") from error
    function = read.function
    if function is None:
        _refuse_typed(read.type)
        return None
    schema = None if bytes(function.parameters) in (b"", b"null", b"{}") else function.parameters
    return _declaration(function.name, function.description, schema)


def _of_mapping(tool: JsonObject) -> JsonObject | None:
    function = tool.get("function")
    if function is None:
        _refuse_typed(tool.get("type"))
        return None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError("a tool is not in OpenAI's function format: it has no name", param="tools")
    return _declaration(function["name"], function.get("description"), function.get("parameters"))


def _refuse_typed(kind: Any) -> None:
    """A tool that is no function is the provider's own; one that says a type is another provider's."""
    if kind is not None:
        raise RequestError(f"Gemini has no tools of type {kind!r}", param="tools")


def _declaration(name: str, description: Any, schema: Any) -> JsonObject:
    """`strict` has no counterpart; what a model may call is held to its schema in mode VALIDATED and ANY."""
    declared: dict[str, Any] = {"name": name}
    if description:
        declared["description"] = description
    if schema:
        declared["parametersJsonSchema"] = schema
    return declared


def _calling(request: ModelRequest) -> dict[str, Any] | None:
    """The choice, joined with the mask: all tools stay in the request, and so in the provider's cache."""
    mode, names = _choice(request.tool_choice)
    if names is None and mode != "NONE":
        names = request.allowed
    if names is None:
        return {"mode": mode} if mode else None
    if not names:  # an empty list would mean all
        if mode == "ANY":
            raise RequestError("tool_choice wants a call, and no tool may be called", param="tool_choice")
        return {"mode": "NONE"}
    return {"mode": "ANY" if mode == "ANY" else "VALIDATED", "allowedFunctionNames": list(names)}


_MODES = {None: None, "auto": "AUTO", "none": "NONE", "required": "ANY"}


def _choice(choice: Any) -> tuple[str | None, Sequence[str] | None]:
    """The mode, and the names that the choice itself allows. Raises `RequestError` for a choice that means nothing."""
    if choice is None or isinstance(choice, str):
        if choice in _MODES:
            return _MODES[choice], None
    elif isinstance(choice, Mapping):
        if choice.get("type") == "function":
            name = _name_of(choice)
            if name:
                return "ANY", [name]
        inside = choice.get("allowed_tools")
        if choice.get("type") == "allowed_tools" and isinstance(inside, Mapping):
            tools, mode = inside.get("tools"), inside.get("mode")
            if mode in ("auto", "required") and isinstance(tools, list | tuple):
                names = [_name_of(tool) if isinstance(tool, Mapping) else "" for tool in tools]
                if all(names):
                    return _MODES[mode], names
    raise RequestError(f"tool_choice {choice!r} says nothing that Gemini knows", param="tool_choice")


def _name_of(tool: JsonObject) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else ""


# ---------------------------------------------------------------- in


class _Content(msgspec.Struct):
    parts: list[dict[str, Any]] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: _Count | None = None
    cached_content_token_count: _Count | None = None
    candidates_token_count: _Count | None = None
    thoughts_token_count: _Count | None = None
    tool_use_prompt_token_count: _Count | None = None


class _Answer(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    error: Any = None


_ANSWER = msgspec.json.Decoder(_Answer)
_ANY = msgspec.json.Decoder()

_FILTERED = frozenset(
    {
        *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)
_FINISHED = {"MAX_TOKENS": "length", "CONTINUATION": "length", **dict.fromkeys(_FILTERED, "content_filter")}
_FAILED: Mapping[str, type[ProviderError]] = {
    "MALFORMED_FUNCTION_CALL": ProviderProtocolError,  # what the model wrote was no call: it may be one next time
    "MALFORMED_RESPONSE": ProviderProtocolError,
    "UNEXPECTED_TOOL_CALL": ProviderProtocolError,
    "MISSING_THOUGHT_SIGNATURE": ProviderRejectedError,
    "PUP_LIMITED_DISABLED": ProviderAuthError,
}
"""Reasons to finish that mean: there is no answer."""
_STATUSES = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_PLAIN_TEXT = ({"text"}, {"text", "thought"})
_LONGEST_WAIT = 86_400.0
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)s")


def reply_from_wire(body: bytes, *, who: str, author: str = "") -> ModelReply:
    """A whole answer of `author`."""
    gathering = Gathering(who=who, author=author)
    gathering.add(body)
    return gathering.reply()


class Gathering:
    """An answer while it comes in: every event is an answer in itself, which holds what is new.

    A stream has no closing event, so it is read to its end; it was whole if a reason to finish came. Every event of some models
    has one.
    """

    def __init__(self, *, who: str, author: str = "") -> None:
        self.done = False
        """The body has ended, and not too early."""
        self._who = who
        self._author = author
        self._native: list[JsonObject] = []
        self._text: list[str] = []
        self._run: list[str] = []
        """Pieces of text that are one part: neither signed, nor parted by anything else."""
        self._run_thinks = False
        self._calls: list[ToolCall] = []
        self._answered = False
        self._said = False
        """There was a part, if only one of no words."""
        self._finish: str | None = None
        self._finish_message = ""
        self._blocked = False
        self._usage = _Usage()
        self._model = ""

    def add(self, data: bytes) -> ModelDelta | None:
        """Take in an event; None: nothing of it is for the caller (usage, the reason to finish)."""
        answer = _read(data, self._who)
        if answer.usage_metadata is not None:
            self._usage = answer.usage_metadata
        if answer.model_version:
            self._model = answer.model_version
        if answer.prompt_feedback is not None and answer.prompt_feedback.block_reason:
            self._blocked = True
        for candidate in answer.candidates or ():
            if not candidate.index:  # of several candidates the first is the answer
                return self._take(candidate)
        return None

    def end(self) -> None:
        """The body has ended. Raises `ProviderProtocolError` when the stream was cut before its reason to finish."""
        if self._answered and self._finish is None:
            raise ProviderProtocolError(f"{self._who} cut its stream before the answer was finished")
        self.done = True

    def _take(self, candidate: _Candidate) -> ModelDelta | None:
        self._answered = True
        if candidate.finish_reason is not None:
            self._finish = candidate.finish_reason
            self._finish_message = candidate.finish_message or ""
        parts = candidate.content.parts if candidate.content is not None else None
        if not parts:
            return None
        self._said = True
        text: list[str] = []
        thoughts: list[str] = []
        calls: list[CallDelta] = []
        for part in parts:
            if part.get("functionCall") is not None:
                calls.append(self._call(part))
            elif part.get("text") is not None:
                (thoughts if part.get("thought") else text).append(self._words(part))
            else:  # pictures, code the provider runs itself, kinds to come
                self._keep(part)
        if not (text or thoughts or calls):
            return None
        self._text.extend(text)
        return ModelDelta(text="".join(text), calls=tuple(calls), reasoning="".join(thoughts))

    def _words(self, part: dict[str, Any]) -> str:
        said = part["text"]
        if not isinstance(said, str):
            raise self._odd("a text that is none", part)
        thinks = bool(part.get("thought"))
        if part.keys() not in _PLAIN_TEXT:
            self._keep(part)
        else:
            if thinks is not self._run_thinks:
                self._end_run()
                self._run_thinks = thinks
            self._run.append(said)
        return said

    def _keep(self, part: JsonObject) -> None:
        self._end_run()
        self._native.append(part)

    def _end_run(self) -> None:
        words = "".join(self._run)
        self._run.clear()
        if words:
            self._native.append({"text": words, "thought": True} if self._run_thinks else {"text": words})

    def _call(self, part: dict[str, Any]) -> CallDelta:
        wire = part["functionCall"]
        if not isinstance(wire, dict):
            raise self._odd("a tool call that is no object", part)
        name, arguments, call_id = wire.get("name"), wire.get("args"), wire.get("id")
        if not isinstance(name, str) or not name:
            raise self._odd("a tool call without saying which tool", part)
        if not isinstance(arguments, dict | None) or not isinstance(call_id, str | None):
            raise self._odd("a tool call whose id or arguments are of the wrong type", part)
        if wire.get("partialArgs") or wire.get("willContinue"):
            raise self._odd("a tool call in pieces, which nobody asked for", part)
        call = ToolCall(id=call_id or _new_call_id(), name=name, arguments=ENCODER.encode(arguments or {}).decode())
        self._keep(part)
        self._calls.append(call)
        return CallDelta(index=len(self._calls) - 1, id=call.id, name=name, arguments=call.arguments)

    def _odd(self, what: str, part: JsonObject) -> ProviderProtocolError:
        return ProviderProtocolError(f"{self._who} answered in an unknown shape: {what}", body=ENCODER.encode(part))

    def reply(self) -> ModelReply:
        """The whole answer. A prompt that was blocked has one too: no words, finished by 'content_filter'.

        Raises `ProviderProtocolError` if there is none, and what the reason to finish means where it means a failure.
        """
        if not self._answered and not self._blocked:
            raise ProviderProtocolError(f"{self._who} answered without a candidate")
        failed = _FAILED.get(self._finish or "")
        if failed is not None:
            raise failed(f"{self._who} gave up its answer: {self._finish} {self._finish_message}".rstrip())
        if not self._said and not self._blocked and self._finish in (None, "STOP"):
            raise ProviderProtocolError(f"{self._who} answered without any content")
        self._end_run()
        return ModelReply(
            message=Message(
                role="assistant",
                content=self._content(),
                tool_calls=tuple(self._calls),
                native=tuple(self._native),
                author=self._author,
            ),
            finish_reason=self._finish_reason(),
            usage=_usage(self._usage),
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
        pictures = [picture for part in self._native if (picture := _picture(part))]
        if pictures:
            return (*blocks_of(text), *pictures)
        return text if text or not self._calls else None


def _picture(part: JsonObject) -> Image | None:
    blob = part.get("inlineData")
    mime = blob.get("mimeType") if isinstance(blob, dict) else None
    if not isinstance(blob, dict) or not str(mime).startswith("image/") or part.get("thought"):
        return None
    return Image(data=str(blob.get("data", "")), mime_type=str(mime))


def _usage(wire: _Usage) -> Usage:
    """Gemini counts cached tokens among those of the prompt, and thoughts beside those of the answer."""
    thoughts = wire.thoughts_token_count or 0
    return Usage(
        input_tokens=(wire.prompt_token_count or 0) + (wire.tool_use_prompt_token_count or 0),
        output_tokens=(wire.candidates_token_count or 0) + thoughts,
        cached_tokens=wire.cached_content_token_count or 0,
        reasoning_tokens=thoughts,
    )


def _new_call_id() -> str:
    """For models that send none: a result must say which call it answers."""
    return f"call_{uuid.uuid4().hex[:24]}"


# ---------------------------------------------------------------- errors


def _read(data: bytes, who: str) -> _Answer:
    """Raises `ProviderProtocolError` for what is no answer, and for an error in its place what that means."""
    try:
        answer = _ANSWER.decode(data)
    except UNREADABLE as error:
        found = _error_in(data)
        if found:
            raise _broken_off(found, data, who) from error
        decoded(data, who=who)
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error}", body=data) from error
    if answer.error:
        raise _broken_off(answer.error, data, who)
    return answer


def _broken_off(error: Any, data: bytes, who: str) -> ProviderError:
    """An error where an answer was due, as the status in it says."""
    status = error.get("code") if isinstance(error, dict) else None
    if not isinstance(status, int) or not 400 <= status < 600:
        word = error.get("status") if isinstance(error, dict) else None
        status = _STATUSES.get(word) if isinstance(word, str) else None
    kind = kind_of(status) if status else ProviderProtocolError
    said = f"{who} broke off with an error: {error_message(data)}"
    return kind(said, status=status, retry_after=retry_delay(data), body=data)


def _error_in(body: bytes) -> Any:
    """The error of an error body, which may also stand alone in a list."""
    try:
        value = _ANY.decode(body)
    except UNREADABLE:
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value.get("error") if isinstance(value, dict) else None


def _details(body: bytes) -> list[JsonObject]:
    error = _error_in(body)
    details = error.get("details") if isinstance(error, dict) else None
    return [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []


def retry_delay(body: bytes) -> float | None:
    """Seconds to wait, a day at most, as an error body says them ("36s"); None: it does not."""
    for detail in _details(body):
        said = detail.get("retryDelay")
        found = _SECONDS.fullmatch(said) if isinstance(said, str) else None
        if found is not None:
            return min(float(found[1]), _LONGEST_WAIT)
    return None


def refuses_the_key(body: bytes) -> bool:
    """Whether an error body says that the key is wrong, which this provider does with status 400."""
    return any(detail.get("reason") in ("API_KEY_INVALID", "API_KEY_EXPIRED") for detail in _details(body))
