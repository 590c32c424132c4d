"""A tool call as a JSON answer held to a schema: for models that may not, or will not, call a tool when told to.

The definition of a candidate is said twice: in the schema, which holds the answer, and in the prompt, because some servers
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
_MOST_BYTES = 16_000
"""Of the candidates' definitions together; the first goes in whatever its size."""
_MOST_ANSWER = 1_000_000
_FENCE = re.compile(r"\A```[a-zA-Z]*\s*(.*?)\s*```\Z", re.DOTALL)
_KEPT = ("description", "enum")
_NOTE = (
    "\n\nAnswer this by calling one of the tools below; do not answer from general knowledge. Write only one JSON object: "
    '{"call": {"tool": NAME, "arguments": {...}}}\nTools:\n'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What is asked for."""

    schema: JsonObject
    note: str
    """For the prompt."""
    names: frozenset[str]


def offer(definitions: Sequence[JsonObject]) -> Offer:
    """The best of these tools, likeliest first, as one schema. Definitions are in OpenAI's function format."""
    chosen: list[Mapping[str, Any]] = []
    size = 0
    for definition in definitions[:_MOST_CANDIDATES]:
        function = definition["function"]
        size += len(msgspec.json.encode(function))
        if chosen and size > _MOST_BYTES:
            break
        chosen.append(function)
    calls = [_call_schema(function) for function in chosen]
    call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    lines = [msgspec.json.encode(_shown(function)).decode() for function in chosen]
    return Offer(
        schema=_object({"call": call}, ["call"]),
        note=_NOTE + "\n".join(lines),
        names=frozenset(function["name"] for function in chosen),
    )


def call_of(text: str, names: frozenset[str]) -> ToolCall | None:
    """The call that an answer holds, under a fresh id; None: it is not what was asked for."""
    said = text.strip()
    if len(said) > _MOST_ANSWER:
        return None
    fenced = _FENCE.match(said)
    answer = _json(fenced[1] if fenced else said)
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


def _shown(function: Mapping[str, Any]) -> dict[str, Any]:
    return {name: function[name] for name in ("name", "description", "parameters") if name in function}


def _call_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    try:
        held = portable(parameters)
    except RecursionError:
        held = None
    if held is None:
        held = {"type": "string", "description": "The arguments as a JSON object, written as text."}
    tool = {"type": "string", "enum": [function["name"]]}
    return _object({"tool": tool, "arguments": held}, ["tool", "arguments"])


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def portable(schema: Any) -> dict[str, Any] | None:
    """The schema in the words that every provider's constrained answers know; None: it cannot be said in them.

    Bounds and patterns are left out: arguments are checked against the real schema before anything runs. References and
    free-form objects have no portable form.
    """
    if not isinstance(schema, Mapping) or "$ref" in schema:
        return None
    kept = {name: schema[name] for name in _KEPT if name in schema}
    if "const" in schema:
        return {**kept, "enum": [schema["const"]]}
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        arms = [portable(arm) for arm in alternatives]
        return None if None in arms else {**kept, "anyOf": arms}
    kind = schema.get("type")
    if kind == "object":
        return _portable_object(schema, kept)
    if kind == "array":
        items = portable(schema.get("items"))
        return None if items is None else {**kept, "type": "array", "items": items}
    if isinstance(kind, list) and ({"object", "array"} & set(kind)):
        return None
    return {**kept, "type": kind} if kind else (kept if "enum" in kept else None)


def without_references(schema: Any) -> Any:
    """Returns the schema with its own definitions in the places that refer to them; a reference that leads back to itself, or
    to anywhere else, stays one."""
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


def _portable_object(schema: Mapping[str, Any], kept: dict[str, Any]) -> dict[str, Any] | None:
    named = schema.get("properties") or {}
    if not isinstance(named, Mapping):
        return None
    if schema.get("patternProperties") or schema.get("additionalProperties") not in (None, False):
        return None
    if not named and "additionalProperties" not in schema and "properties" not in schema:
        return None
    held = {name: portable(inner) for name, inner in named.items()}
    if None in held.values():
        return None
    required = [name for name in schema.get("required") or () if name in held]
    return {**kept, **_object(held, required)}
