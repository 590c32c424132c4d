"""The type of an agent's answer, given as a Python type or a JSON schema: its schema for the model, and the conversion of an
answer's text to a value."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError

from toolcaddie.core.errors import CatalogError, ConfigError, OutputError, RequestError
from toolcaddie.core.run import RunResult
from toolcaddie.core.schema import argument_errors, canonical_json, check_schema
from toolcaddie.core.tool import JsonObject
from toolcaddie.engine.engine import Engine
from toolcaddie.providers.checked import Checked
from toolcaddie.util.replacing import replace

_FENCE = re.compile(r"\A```[a-zA-Z]*\s*(.*?)\s*```\Z", re.DOTALL)
"""Matches an answer within a Markdown code fence, whose content counts as the answer."""
_UNUSABLE = (PydanticUserError, SchemaError, TypeError, NameError)
"""Errors of pydantic for a type that has no JSON schema."""
_SHOWN_ERRORS = 5
"""The largest number of wrong fields that an error message names."""
_WRAPPED = "result"
"""Name of the field that has the value, if the value is not an object."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Output:
    """An output type. It is read once and used for every answer."""

    schema: JsonObject
    """The schema as a model reads it, and as it is stored with a paused run."""
    adapter: TypeAdapter[Any] | None
    """Converts an answer to the Python type; None: the type is a JSON schema, and answers stay plain JSON values."""

    @property
    def is_wrapped(self) -> bool:
        """True if the schema is not that of an object. The model then answers with an object that has the value in one field,
        because providers can enforce only schemas of objects."""
        return self.schema.get("type") != "object" and "properties" not in self.schema

    @property
    def answer_schema(self) -> JsonObject:
        """The schema that the model's answer must fit: the schema of the value, or that of an object around it."""
        if not self.is_wrapped:
            return self.schema
        inner = {name: value for name, value in self.schema.items() if name != "$defs"}
        definitions = {"$defs": self.schema["$defs"]} if "$defs" in self.schema else {}
        return {
            "type": "object",
            "properties": {_WRAPPED: inner},
            "required": [_WRAPPED],
            "additionalProperties": False,
            **definitions,
        }

    @property
    def note(self) -> str:
        """The instruction for the model, because not every provider enforces a schema."""
        schema = canonical_json(self.answer_schema).decode()
        return f"When you need no more tools, answer with one JSON object and nothing else. It must fit this schema: {schema}"

    def complaint(self, text: str) -> str:
        """Returns the error in an answer; empty: the answer is valid."""
        try:
            self.value(text)
        except OutputError as error:
            return str(error)
        return ""

    def value(self, text: str) -> Any:
        """Returns the value of an answer. Raises `OutputError`, which says what is wrong with the answer."""
        body = text.strip()
        fenced = _FENCE.match(body)
        try:
            answer = msgspec.json.decode(fenced[1] if fenced else body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise OutputError(f"the answer is not JSON ({error})") from error
        if self.adapter is None:
            if wrong := argument_errors(self.answer_schema, answer):
                raise OutputError("; ".join(wrong))
            return answer[_WRAPPED] if self.is_wrapped else answer
        if self.is_wrapped:
            if not isinstance(answer, dict) or set(answer) != {_WRAPPED}:
                raise OutputError(f"the answer must be an object with the one key {_WRAPPED!r}")
            answer = answer[_WRAPPED]
        return _validated(self.adapter, answer)


def output_of(kind: Any) -> Output | None:
    """Returns the output type for a pydantic model, a dataclass, a TypedDict, another Python type or a JSON schema.

    Raises `RequestError` for any other object.
    """
    if kind is None:
        return None
    if isinstance(kind, Mapping):
        output = Output(schema=dict(kind), adapter=None)
        try:
            check_schema(output.answer_schema, what="output")
        except CatalogError as error:
            raise RequestError(str(error), param="output") from error
        return output
    if not isinstance(kind, Hashable) or isinstance(kind, str | int | float):
        raise RequestError(
            f"output must be a type (a pydantic model, a dataclass, a TypedDict) or a JSON schema, not {kind!r:.80}",
            param="output",
        )
    return _of_type(kind)


def default_output(kind: Any) -> Output | None:
    """Returns the default output type of a runtime. Raises `ConfigError` for an object that is no type."""
    try:
        return output_of(kind)
    except RequestError as error:
        raise ConfigError(str(error)) from error


def stored_output(schema: Any, default: Output | None) -> Output | None:
    """Returns the output type of a paused run, whose stored schema is `schema`: `default` if the schema is the same."""
    if default is not None and schema == default.schema:
        return default
    return output_of(schema)


def with_output(engine: Engine, output: Output) -> Engine:
    """Returns the engine with a provider that must answer in this output type."""
    provider = Checked(
        engine.provider,
        schema=output.answer_schema,
        complaint=output.complaint,
        capabilities=engine.capabilities,
    )
    return replace(engine, provider=provider)


def with_value(result: RunResult, output: Output | None) -> RunResult:
    """Returns the result with the value of its answer. Raises `OutputError` for a wrong answer, for example one that a meta tool
    gave instead of the model. A question to the user and a refusal have no value."""
    if output is None or result.status != "completed" or result.ending in ("question", "refusal"):
        return result
    return replace(result, output=output.value(result.text))


@lru_cache(maxsize=64)
def _of_type(kind: Any) -> Output:
    """Returns the output type for a Python type. Raises `RequestError` if it has no JSON schema."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema()
    except _UNUSABLE as error:
        reason = str(error).split("\n", 1)[0]
        raise RequestError(f"output: no JSON schema can be made of {kind!r:.80} ({reason})", param="output") from error
    return Output(schema=_inlined(schema), adapter=adapter)


def _inlined(schema: JsonObject) -> JsonObject:
    """Returns a schema that states its type at the top level. The schema of a recursive type has only a reference there, which is
    replaced by its definition."""
    reference = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definitions = schema.get("$defs", {})
    return {**definitions[reference], "$defs": definitions} if reference in definitions else dict(schema)


def _validated(adapter: TypeAdapter[Any], answer: Any) -> Any:
    """Returns the answer converted to the Python type. Raises `OutputError` for an answer that does not fit the type."""
    try:
        # Through JSON, because only there pydantic's strict mode takes a date, an enum or a set for what it is.
        return adapter.validate_json(msgspec.json.encode(answer), strict=True)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)[:_SHOWN_ERRORS]
        lines = [f"{'.'.join(map(str, item['loc'])) or 'answer'}: {item['msg'][:300]}" for item in errors]
        raise OutputError("; ".join(lines)) from error
