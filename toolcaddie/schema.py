"""JSON Schema of tools: checked once at load, compiled once, never fetched from anywhere.

Wire definitions are made here too, because what a schema costs in tokens is a property of its definition.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from toolcaddie.errors import CatalogError
from toolcaddie.tool import JsonObject, Tool

_ENCODER = msgspec.json.Encoder(order="sorted")

BYTES_PER_TOKEN = 3.6
"""A start value; a provider's own usage figures calibrate it per model."""

_LONG_DESCRIPTION = 160
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and no spaces: equal values give equal bytes."""
    return _ENCODER.encode(value)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def estimate_tokens(text: bytes | str) -> int:
    """Tokens of a text by its size in UTF-8 bytes, rounded up."""
    size = len(text) if isinstance(text, bytes) else len(text.encode())
    return int(-(-size // BYTES_PER_TOKEN))


def check_schema(schema: Any, *, what: str) -> None:
    """Raise `CatalogError`, naming `what`, unless this is a usable schema of a tool's arguments.

    Usable: an object schema of draft 2020-12 that compiles and whose references stay inside it. A reference to anywhere
    else is refused and never fetched.
    """
    if not isinstance(schema, Mapping):
        raise CatalogError(f"{what}: the schema must be a JSON object, not {type(schema).__name__}")
    if schema.get("type", "object") != "object":
        raise CatalogError(f"{what}: the schema of a tool's arguments must have type 'object', not {schema['type']!r}")
    _refuse_outside_references(schema, what)
    try:
        compile_schema(schema)
    except CatalogError:
        raise
    except ValueError as error:
        raise CatalogError(f"{what}: invalid JSON Schema: {_first_line(error)}") from error


def compile_schema(schema: JsonObject) -> jsonschema_rs.Draft202012Validator:
    """The validator of a schema. Compiled once per different schema; references outside it raise ValueError."""
    return _compile(canonical_json(schema))


@lru_cache(maxsize=20_000)
def _compile(canonical: bytes) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(msgspec.json.decode(canonical), retriever=_refuse)


def _refuse(uri: str) -> Any:
    raise ValueError(f"the reference {uri!r} leaves the schema; put the definition under $defs")


def _refuse_outside_references(schema: Any, what: str) -> None:
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            for key in ("$ref", "$dynamicRef", "$recursiveRef"):
                reference = node.get(key)
                if isinstance(reference, str) and not reference.startswith("#"):
                    raise CatalogError(
                        f"{what}: the reference {reference!r} leaves the schema and is never fetched; "
                        "put the definition under $defs"
                    )
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)


def argument_errors(schema: JsonObject, arguments: Any, *, limit: int = 3) -> list[str]:
    """What is wrong with these arguments, one sentence each naming the field; empty: nothing."""
    validator = compile_schema(schema)
    if validator.is_valid(arguments):
        return []
    found = []
    for error in validator.iter_errors(arguments):
        where = ".".join(str(part) for part in error.instance_path) or "arguments"
        found.append(f"{where}: {_shorten(_first_line(error.message), 300)}")
        if len(found) == limit:
            break
    return found


def wire_definition(tool: Tool, *, slim: bool = False) -> dict[str, Any]:
    """The tool in OpenAI's function format; `slim`: without examples, titles and long descriptions."""
    if tool.definition is not None and not slim:
        return dict(tool.definition)
    if tool.definition is not None:
        function = dict(tool.definition.get("function") or {})
        if not function:  # a kind we do not know: nothing in it is ours to cut
            return dict(tool.definition)
        return {**tool.definition, "function": _slim_function(function)}
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": _slim_function(function) if slim else function}


def _slim_function(function: Mapping[str, Any]) -> dict[str, Any]:
    small = dict(function)
    if isinstance(small.get("description"), str):
        small["description"] = _shorten(small["description"], _LONG_DESCRIPTION)
    if "parameters" in small:
        small["parameters"] = slim_schema(small["parameters"])
    return small


def slim_schema(schema: Any) -> Any:
    """The same constraints in fewer bytes: no examples, titles, comments; descriptions cut to a sentence; `$defs` that
    are equal or unused folded away. What validates against the one validates against the other."""
    return _fold_definitions(_slim_node(schema))


_NOISE = frozenset({"title", "examples", "example", "$comment", "$schema", "$id", "deprecated"})
_NAMED_CHILDREN = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VERBATIM = frozenset({"enum", "const", "default", "required", "dependentRequired"})


def _slim_node(node: Any) -> Any:
    if isinstance(node, list | tuple):
        return [_slim_node(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    small: dict[str, Any] = {}
    for key, value in node.items():
        if key in _VERBATIM:
            small[key] = value
        elif key in _NAMED_CHILDREN and isinstance(value, Mapping):
            small[key] = {name: _slim_node(child) for name, child in value.items()}
        elif key == "description" and isinstance(value, str):
            small[key] = _shorten(value, _LONG_DESCRIPTION)
        elif key not in _NOISE:
            small[key] = _slim_node(value)
    return small


def _fold_definitions(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or not isinstance(schema.get("$defs"), Mapping):
        return schema
    first_with: dict[bytes, str] = {}
    renames: dict[str, str] = {}
    for name, body in schema["$defs"].items():
        kept = first_with.setdefault(canonical_json(body), name)
        if kept != name:
            renames[f"#/$defs/{name}"] = f"#/$defs/{kept}"
    folded = _rename_references(schema, renames)
    body_text = canonical_json({key: value for key, value in folded.items() if key != "$defs"})
    definitions = dict(folded["$defs"])
    reachable = _reachable(body_text, definitions)
    kept_definitions = {name: body for name, body in definitions.items() if name in reachable}
    folded = {key: value for key, value in folded.items() if key != "$defs"}
    return {**folded, "$defs": kept_definitions} if kept_definitions else folded


def _rename_references(node: Any, renames: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_rename_references(item, renames) for item in node]
    if not isinstance(node, Mapping):
        return node
    return {
        key: renames.get(value, value)
        if key == "$ref" and isinstance(value, str)
        else _rename_references(value, renames)
        for key, value in node.items()
    }


_REFERENCE = re.compile(rb'"\$ref":"#/\$defs/([^"/]+)')


def _reachable(text: bytes, definitions: Mapping[str, Any]) -> set[str]:
    seen: set[str] = set()
    pending = [text]
    while pending:
        for match in _REFERENCE.finditer(pending.pop()):
            name = match[1].decode()
            if name not in seen and name in definitions:
                seen.add(name)
                pending.append(canonical_json(definitions[name]))
    return seen


def _shorten(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    first = _SENTENCE_END.split(text, maxsplit=1)[0]
    return first if len(first) <= size else first[: size - 1].rstrip() + "…"


def _first_line(error: object) -> str:
    return str(error).split("\n", 1)[0]
