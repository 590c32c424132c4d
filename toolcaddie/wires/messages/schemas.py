"""JSON Schemas that Anthropic's API accepts: for a tool's parameters one plain object, for an answer closed objects without
unknown bounds. One refused schema fails the whole request, so parts that it would refuse are expressed differently."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_UNKNOWN = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    }
)
"""Keywords that the API refuses. They are moved into the description for the model; the caller checks the answer anyway."""
_NAMED = frozenset({"properties", "$defs", "definitions"})
"""Keywords whose value maps names to schemas."""
_COMBINED = ("allOf", "anyOf", "oneOf")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_MAX_STEPS = 8
"""The largest number of references that are followed one after another."""
_NOT_SCHEMAS = frozenset({"enum", "const", "default", "examples", "required"})


def input_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the parameters of a tool. A choice of several objects becomes one object with the properties of all, and the
    choice in its description. Optional parameters whose names the API refuses are omitted.

    The result may be looser than the original, never stricter: calls are checked against the tool's own schema.
    """
    made = {"type": "object", **schema}
    if any(keyword in schema for keyword in _COMBINED):
        made = _one_object(made)
    properties = made.get("properties")
    if isinstance(properties, Mapping) and not all(map(_KEY.match, properties)):
        needed = _required(made)
        made["properties"] = {name: each for name, each in properties.items() if _KEY.match(name) or name in needed}
    return made


def _one_object(schema: dict[str, Any]) -> dict[str, Any]:
    made = {name: value for name, value in schema.items() if name not in _COMBINED}
    own = _properties(made)
    by_name: dict[str, list[Any]] = {}
    needed = _required(made)
    for keyword in _COMBINED:
        parts = list(_parts(schema, keyword))
        for part in parts:
            for name, each in _properties(part).items():
                if name not in own and each not in by_name.setdefault(name, []):
                    by_name[name].append(each)
        sets = [_required(part) for part in parts]
        if keyword == "allOf":
            needed += [name for each in sets for name in each]
        elif sets:
            needed += [name for name in sets[0] if all(name in each for each in sets)]
            choices = " | ".join(", ".join(each) or "nothing more" for each in sets)
            made["description"] = " ".join(filter(None, (made.get("description"), f"Needs one of these: {choices}.")))
    joined = {name: each[0] if len(each) == 1 else {"anyOf": each} for name, each in by_name.items()}
    made["properties"] = {**own, **joined}
    if needed:
        made["required"] = list(dict.fromkeys(needed))
    return made


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _required(schema: Mapping[str, Any]) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list | tuple) else []


def _parts(schema: Mapping[str, Any], keyword: str) -> Iterator[Mapping[str, Any]]:
    """Yields the schemas that a keyword combines, with references inside the schema followed."""
    parts = schema.get(keyword)
    for part in parts if isinstance(parts, list | tuple) else ():
        for _ in range(_MAX_STEPS):
            reference = part.get("$ref") if isinstance(part, Mapping) else None
            if not isinstance(reference, str) or not reference.startswith("#/"):
                break
            part = _at(schema, reference[2:])
        if isinstance(part, Mapping):
            yield part


def _at(schema: Any, path: str) -> Any:
    for step in path.split("/"):
        schema = schema.get(step) if isinstance(schema, Mapping) else None
    return schema


def output_schema(schema: Any) -> Any:
    """Returns a schema for `output_config.format`, a copy where it had to change.

    Every object is closed, because the API refuses open ones; unknown bounds move into the description.
    Source: the structured-output guide of the API, and what its official package does to schemas before it sends them.
    """
    if isinstance(schema, Mapping):
        return _object(schema)
    return [output_schema(each) for each in schema] if isinstance(schema, list | tuple) else schema


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _UNKNOWN or (name == "minItems" and value not in (0, 1)):
            bounds[name] = value
        elif name in _NAMED and isinstance(value, Mapping):
            made[name] = {key: output_schema(each) for key, each in value.items()}
        else:
            made[name] = value if name in _NOT_SCHEMAS else output_schema(value)
    if made.get("type") == "object" or "properties" in made:
        made["additionalProperties"] = False
    if bounds:
        text = msgspec.json.encode(bounds).decode()
        made["description"] = f"{made['description']} {text}" if made.get("description") else text
    return made
