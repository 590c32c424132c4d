"""The keywords of schemas that are taken over from an OpenAPI document, each with a check of its value.

Everything else is omitted: examples, `xml`, extensions, and values of a wrong type, which occur in real documents and which a
validator would refuse together with the whole tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


PLAIN: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "pattern", "contentMediaType", "contentEncoding"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    **dict.fromkeys(("uniqueItems", "deprecated"), _is_flag),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "const": lambda value: True,
    "default": lambda value: True,
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
}
"""Keywords whose values are data."""

ONE = ("additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
"""Keywords whose value is a schema."""
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
"""Keywords whose value is a list of schemas."""
NAMED = ("properties", "patternProperties", "dependentSchemas")
"""Keywords whose value maps names to schemas."""
