"""The JSON Schema that Anthropic's structured output takes: closed objects, and no bounds it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_UNKNOWN = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    }
)
"""Keywords the API refuses. The model is told them in the description instead; who asked checks the answer anyway."""
_NAMED = frozenset({"properties", "$defs", "definitions"})
"""Keywords whose value is schemas by name."""
_NOT_SCHEMAS = frozenset({"enum", "const", "default", "examples", "required"})


def output_schema(schema: Any) -> Any:
    """`schema` as `output_config.format` takes it: a copy where anything had to change.

    Every object is closed, because the API takes no open one; bounds it does not know move into the description.
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
        told = msgspec.json.encode(bounds).decode()
        made["description"] = f"{made['description']} {told}" if made.get("description") else told
    return made
