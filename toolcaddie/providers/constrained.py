"""A tool call as a JSON answer constrained by a schema, for models that cannot be forced to call a tool.

The definitions of the candidates are in the schema, which constrains the answer, and also in the prompt, because some servers
turn the schema into a grammar that the model never reads.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.wires.bodies import UNREADABLE

_MOST_CANDIDATES = 8
"""Largest number of tools in a schema."""
_MOST_BYTES = 16_000
"""Largest size in bytes of the definitions in a schema. The first definition is included whatever its size."""
_MOST_ANSWER = 1_000_000
"""Largest number of characters of an answer that is read."""
_FENCE = re.compile(r"\A```[a-zA-Z]*\s*(.*?)\s*```\Z", re.DOTALL)
_ANNOTATIONS = ("description", "enum")
_NOTE = (
    "\n\nAnswer this by calling one of the tools below; do not answer from general knowledge. Write only one JSON object: "
    '{"call": {"tool": NAME, "arguments": {...}}}\nTools:\n'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The schema of the answer, and the note that describes it."""

    schema: JsonObject
    note: str
    """Text for the prompt."""
    names: frozenset[str]
    """Names of the tools in the schema."""


def offer(definitions: Sequence[JsonObject]) -> Offer:
    """Returns the schema for a call of one of these tools (OpenAI's function format); of the first ones if there are too many."""
    functions: list[Mapping[str, Any]] = []
    size = 0
    for definition in definitions[:_MOST_CANDIDATES]:
        function = definition["function"]
        size += len(msgspec.json.encode(function))
        if functions and size > _MOST_BYTES:
            break
        functions.append(function)
    calls = [_call_schema(function) for function in functions]
    call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    lines = [msgspec.json.encode(_described(function)).decode() for function in functions]
    return Offer(
        schema=_object({"call": call}, ["call"]),
        note=_NOTE + "\n".join(lines),
        names=frozenset(function["name"] for function in functions),
    )


def call_of(text: str, names: frozenset[str]) -> ToolCall | None:
    """Returns the call in an answer, with a new id; None: the answer is not a call of one of these tools."""
    stripped = text.strip()
    if len(stripped) > _MOST_ANSWER:
        return None
    fenced = _FENCE.match(stripped)
    answer = _json(fenced[1] if fenced else stripped)
    call = answer.get("call", answer) if isinstance(answer, dict) else None
    if not isinstance(call, dict) or not isinstance(call.get("tool"), str) or call["tool"] not in names:
        return None
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        arguments = _json(arguments)
    if not isinstance(arguments, dict):
        return None
    return ToolCall(
        id=f"call_{uuid.uuid4().hex[:24]}", name=call["tool"], arguments=msgspec.json.encode(arguments).decode()
    )


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return None


def _described(function: Mapping[str, Any]) -> dict[str, Any]:
    return {name: function[name] for name in ("name", "description", "parameters") if name in function}


def _call_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    try:
        schema = portable(parameters)
    except RecursionError:
        schema = None
    if schema is None:
        schema = {"type": "string", "description": "The arguments as a JSON object, written as text."}
    tool = {"type": "string", "enum": [function["name"]]}
    return _object({"tool": tool, "arguments": schema}, ["tool", "arguments"])


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def portable(schema: Any) -> dict[str, Any] | None:
    """Returns the schema in the keywords that every provider supports for constrained answers; None: that is impossible.

    Bounds and patterns are omitted: arguments are checked against the real schema before a tool runs. References and
    free-form objects have no portable form.
    """
    if not isinstance(schema, Mapping) or "$ref" in schema:
        return None
    annotations = {name: schema[name] for name in _ANNOTATIONS if name in schema}
    if "const" in schema:
        return {**annotations, "enum": [schema["const"]]}
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        arms = [portable(arm) for arm in alternatives]
        return None if None in arms else {**annotations, "anyOf": arms}
    kind = schema.get("type")
    if kind == "object":
        return _portable_object(schema, annotations)
    if kind == "array":
        items = portable(schema.get("items"))
        return None if items is None else {**annotations, "type": "array", "items": items}
    if isinstance(kind, list) and ({"object", "array"} & set(kind)):
        return None
    return {**annotations, "type": kind} if kind else (annotations if "enum" in annotations else None)


def without_references(schema: Any) -> Any:
    """Returns the schema with each reference to `$defs` replaced by the definition.

    A reference that leads back to itself, or to anything else than `$defs`, stays.
    """
    definitions = schema.get("$defs") or {} if isinstance(schema, Mapping) else {}
    return _expanded(schema, definitions, frozenset())


def _expanded(schema: Any, definitions: Mapping[str, Any], inside: frozenset[str]) -> Any:
    if isinstance(schema, list | tuple):
        return [_expanded(item, definitions, inside) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and name not in inside:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return {**_expanded(definitions[name], definitions, inside | {name}), **beside}
    return {key: _expanded(value, definitions, inside) for key, value in schema.items() if key != "$defs"}


def _portable_object(schema: Mapping[str, Any], annotations: dict[str, Any]) -> dict[str, Any] | None:
    properties = schema.get("properties") or {}
    if not isinstance(properties, Mapping):
        return None
    if schema.get("patternProperties") or schema.get("additionalProperties") not in (None, False):
        return None
    if not properties and "additionalProperties" not in schema and "properties" not in schema:
        return None
    converted = {name: portable(inner) for name, inner in properties.items()}
    if None in converted.values():
        return None
    required = [name for name in schema.get("required") or () if name in converted]
    return {**annotations, **_object(converted, required)}
