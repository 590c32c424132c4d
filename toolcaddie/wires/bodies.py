"""Code that all wires (formats of model APIs) share: encoding and decoding of JSON bodies, and errors about them.

`who` is the provider's name for error messages. A door is the side where clients send requests to us.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import msgspec

from toolcaddie.core.bounds import LARGE, Bounds, beyond
from toolcaddie.core.errors import (
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
    RequestError,
)
from toolcaddie.core.message import ModelReply
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import Envelope, ErrorReport, ModelPage
from toolcaddie.guards.json_counts import check_counts
from toolcaddie.util.bounded import Bounded, Limit
from toolcaddie.util.text import valid_text

_DECODER = msgspec.json.Decoder()
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MOST_TOKENS = 2**53
_QUOTED = 300
"""The largest number of bytes of an unreadable answer that an error quotes."""
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Exceptions of decoding: for text that is not JSON, for strings that are not UTF-8, for brackets nested too deeply."""


def _plain(value: Any) -> Any:
    """Converts mappings that are not dicts, which the encoder does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a request cannot hold {type(value).__name__}, only JSON values")


class _BodyEncoder:
    """Encodes JSON bodies with any text.

    A model's arguments or a caller's text may contain half of a surrogate pair, which UTF-8 cannot encode. It becomes U+FFFD
    and not JSON's escape `\\ud800`, because strict parsers refuse a body with such an escape.
    """

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder(enc_hook=_plain)

    def encode(self, value: Any) -> bytes:
        try:
            return self._encoder.encode(value)
        except UnicodeEncodeError:
            return self._encoder.encode(_with_valid_text(value))


def _with_valid_text(value: Any) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, Mapping):
        return {_with_valid_text(name): _with_valid_text(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_valid_text(item) for item in value]
    return value


ENCODER = _BodyEncoder()

_MOST_ARRAYS = 64
_MOST_ARRAY_BYTES = 4 * 1024 * 1024
_arrays: Bounded[int, tuple[tuple[JsonObject, ...], msgspec.Raw]] = Bounded(
    _MOST_ARRAYS, Limit(_MOST_ARRAY_BYTES, lambda entry: memoryview(entry[1]).nbytes)
)
"""The JSON of tool arrays by the `id` of the tuple, which is kept here, so that no other object gets this id."""


def encoded_array(tools: Sequence[JsonObject]) -> Any:
    """Returns the tools of a request in a form that `ENCODER` writes. A tuple, which stays the same over the rounds of a run and
    over all requests with the same tools, is encoded once."""
    if not isinstance(tools, tuple):
        return tools
    entry = _arrays.get(id(tools))
    if entry is None:
        entry = (tools, msgspec.Raw(ENCODER.encode(tools)))
        _arrays.put(id(tools), entry)
    return entry[1]


# ---------------------------------------------------------------- what a provider sent


def decoded(data: bytes, *, who: str) -> dict[str, Any]:
    """Returns the JSON object in `data`. Raises `ProviderProtocolError` for anything else, and for an error object in place of
    an answer."""
    try:
        value = _DECODER.decode(data)
    except UNREADABLE as error:
        raise ProviderProtocolError(
            f"{who} answered with something that is not JSON: {_quoted(data)}", body=data
        ) from error
    if not isinstance(value, dict):
        raise ProviderProtocolError(f"{who} answered with {type(value).__name__}, not a JSON object: {_quoted(data)}")
    if value.get("error"):
        raise ProviderProtocolError(f"{who} stopped with an error: {error_message(data)}", body=data)
    return value


def count(tokens: int | None) -> int:
    """Returns a server's number of tokens; 0 if it is missing, negative, or too large for a database."""
    return tokens if tokens is not None and 0 <= tokens <= _MOST_TOKENS else 0


def other_fields(data: bytes, names: Collection[str]) -> dict[str, Any]:
    """Returns the top-level fields of a JSON object except those named. Fields that cannot be decoded are omitted."""
    try:
        fields = _FIELDS.decode(data)
    except UNREADABLE:
        return {}
    others: dict[str, Any] = {}
    for name, raw in fields.items():
        if name not in names:
            with suppress(*UNREADABLE):
                others[name] = _DECODER.decode(raw)
    return others


def kind_of(status: int) -> type[ProviderError]:
    """Returns the error class for an HTTP status: of the answer, or a number in an error inside it."""
    if status in (401, 403):
        return ProviderAuthError
    if status == 429:
        return ProviderRateLimitError
    # 409 is a conflict inside the server, not a mistake of the request, so a retry may succeed.
    if status in (408, 409) or status >= 500:
        return ProviderUnavailableError
    return ProviderRejectedError if status >= 400 else ProviderProtocolError


def error_message(body: bytes) -> str:
    """Returns the message of an error body, in one line: from OpenAI's shape, a common variation of it, or the beginning of
    the text."""
    try:
        value = _DECODER.decode(body)
    except UNREADABLE:
        return _quoted(body)
    if isinstance(value, list) and len(value) == 1:  # one provider reports a failed stream in a list
        value = value[0]
    error = value.get("error", value) if isinstance(value, dict) else value
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return error if isinstance(error, str) else _quoted(body)


def error_report(status: int, body: bytes) -> ErrorReport:
    """Reads an error answer by the rules of most APIs; a wire with other rules has its own function."""
    return ErrorReport(kind=kind_of(status), message=error_message(body))


def model_page(body: bytes, *, who: str) -> ModelPage:
    """Reads a list of models in OpenAI's format, which is a single page. Raises `ProviderProtocolError`."""
    models = decoded(body, who=who).get("data")
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise ProviderProtocolError(f"{who} answered without a list of models")
    return ModelPage(models=models)


def _quoted(body: bytes) -> str:
    return " ".join(body[:_QUOTED].decode(errors="replace").split()) or "an empty body"


# ---------------------------------------------------------------- fields that pass through a door


def raw_fields(reply: ModelReply, wire: WireName) -> JsonObject:
    """Returns the fields of `reply.raw` if the provider's answer came over this wire; else no fields."""
    return reply.raw.fields if reply.raw is not None and reply.raw.wire == wire else {}


def with_unknown(ours: JsonObject, theirs: Any) -> JsonObject:
    """Returns `ours` with the fields that only `theirs` has, also inside objects."""
    if not isinstance(theirs, Mapping):
        return ours
    nested = {name: with_unknown(value, theirs.get(name)) for name, value in ours.items() if isinstance(value, Mapping)}
    return {**ours, **nested, **{name: value for name, value in theirs.items() if name not in ours}}


# ---------------------------------------------------------------- what a client sent


def open_envelope(body: bytes, bounds: Bounds, *, what: str) -> Envelope:
    """Returns the fields of a client's request. `what` names it in errors, such as 'a chat request'. Raises `RequestError` if
    the body is not a JSON object, or exceeds the bounds."""
    if len(body) >= LARGE:
        _check_fields(check_counts(body, bounds, what="the body").fields, bounds)
    try:
        fields = _FIELDS.decode(body)
    except UNREADABLE as error:
        raise _not_json(error, what) from error
    _check_fields(len(fields), bounds)
    return Envelope(fields)


def _check_fields(number: int, bounds: Bounds) -> None:
    if number > bounds.keys:
        raise RequestError(beyond(f"the request has {number:,} fields", bounds.keys, "keys"), code="too_many_fields")


def field_value(raw: msgspec.Raw | bytes, *, what: str) -> Any:
    """Returns the value of a field. Raises `RequestError` if it cannot be decoded."""
    try:
        return _DECODER.decode(raw)
    except UNREADABLE as error:
        raise _not_json(error, what) from error


class JsonDoor:
    """The part of a `DoorWire` that all JSON APIs have in common: the envelope of a request, and its field `tools`."""

    what: ClassVar[str]
    """Name of a request in errors."""

    @staticmethod
    def read_definitions(items: Any, bounds: Bounds) -> Sequence[Tool]:
        """Returns the tools in the decoded field `tools`. Each wire defines this function."""
        raise NotImplementedError

    def open(self, body: bytes, bounds: Bounds) -> Envelope:
        return open_envelope(body, bounds, what=self.what)

    def read_tools(self, raw: bytes, bounds: Bounds) -> Sequence[Tool]:
        return self.read_definitions(field_value(raw, what=self.what), bounds)


def _not_json(error: Exception, what: str) -> RequestError:
    return RequestError(f"the body is not the JSON of {what}: {error}", code="invalid_json")
