"""Draws random arguments that fit the JSON schema of a tool. Used to call every operation of a document."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema_rs

HOSTILE = ("a", "/", "?", "#", "&", "%", "+", ";", " ", "'", '"', "ü", "日本", "=", ",", "|", "b", "7", "\\", "\n")
"""Pieces of texts in a body."""
TAME = ("a", "?", "#", "&", "%", "+", " ", "'", "ü", "日本", "b", "7")
"""Pieces of texts in a parameter, without the characters that separate its values in some style."""
INSIDE = ("a", "&", "%", "+", " ", "'", "ü", "日本", "b", "7")
"""Pieces of texts in a path."""
PLAIN = ("a", "b", "7")
"""Pieces of texts in a header."""

FORMATS = {
    "date-time": "2026-11-23T10:00:00Z",
    "date": "2026-11-23",
    "time": "10:00:00Z",
    "uri": "https://example.com/a?b=c",
    "url": "https://example.com/a?b=c",
    "email": "a@example.com",
    "uuid": "3fa85f64-5717-4562-b3fc-2c963f66afa6",
    "ipv4": "192.0.2.1",
    "byte": "YWJj",
    "duration": "PT1H",
    "hostname": "example.com",
}
_CANDIDATES = (
    "a",
    "ab",
    "A",
    "AB",
    "ABC",
    "0",
    "7",
    "12",
    "123456",
    "a1",
    "a-b",
    "a_b",
    "#ff00ff",
    "+15550100",
    "en-US",
    "/a",
)
_ENOUGH = 4
"""Depth below which objects have only their required members."""


class Undrawable(ValueError):
    """A schema for which no value is known."""


def arguments(schema: Mapping[str, Any], chance: random.Random, words: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Returns arguments that fit the schema. `words`: pieces of the texts of each argument; the others get those of a body.

    Raises `Undrawable` if no such arguments are found.
    """
    validator = jsonschema_rs.Draft202012Validator(dict(schema))
    for likelihood in (0.7, 0.7, 0.4, 0.4, 0.2, 0.2, 0.1, 0.1, 0.0, 0.0):
        drawing = Drawing(schema, chance, likelihood)
        try:
            value = {
                name: drawing.value(schema["properties"][name], words.get(name, HOSTILE))
                for name in _names(schema, drawing)
            }
        except Undrawable:
            continue
        if validator.is_valid(value):
            return value
    raise Undrawable("no arguments fit the schema")


def _names(schema: Mapping[str, Any], drawing: Drawing) -> Iterator[str]:
    for name in schema["properties"]:
        if name in schema.get("required", ()) or drawing.chance.random() < drawing.likelihood:
            yield name


class Drawing:
    def __init__(self, root: Mapping[str, Any], chance: random.Random, likelihood: float) -> None:
        self.root, self.chance, self.likelihood = root, chance, likelihood

    def value(self, schema: Any, words: Sequence[str], depth: int = 0) -> Any:
        schema = self._merged(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.chance.choice([each for each in schema["enum"] if each is not None] or [None])
        kinds = schema.get("type") or self._kind(schema)
        kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"] or ["null"]
        kind = self.chance.choice(kinds)
        if kind == "object":
            return self._object(schema, words, depth)
        if kind == "array":
            return self._array(schema, words, depth)
        if kind in ("integer", "number"):
            return self._number(schema)
        if kind == "boolean":
            return self.chance.random() < 0.5
        return None if kind == "null" else self._text(schema, words)

    def _kind(self, schema: Mapping[str, Any]) -> str:
        if "properties" in schema or "additionalProperties" in schema:
            return "object"
        return "array" if "items" in schema else "string"

    def _merged(self, schema: Any, hops: int = 0) -> dict[str, Any]:
        """Returns one schema without references and alternatives, of which it takes one."""
        if hops > 20:
            raise Undrawable("the schema leads to itself")
        if not isinstance(schema, Mapping):
            return {}
        merged = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")}
        parts = [self.root["$defs"][schema["$ref"].rpartition("/")[2]]] if "$ref" in schema else []
        parts += schema.get("allOf", ())
        for key in ("anyOf", "oneOf"):
            branches = [
                each for each in schema.get(key, ()) if not isinstance(each, Mapping) or each.get("type") != "null"
            ]
            parts += [self.chance.choice(branches)] if branches else []
        for part in parts:
            other = self._merged(part, hops + 1)
            properties = {**merged.get("properties", {}), **other.get("properties", {})}
            required = [*merged.get("required", ()), *other.get("required", ())]
            merged = {**other, **merged, "properties": properties, "required": required}
            if not properties:
                del merged["properties"]
        return merged

    def _object(self, schema: Mapping[str, Any], words: Sequence[str], depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        value: dict[str, Any] = {}
        for name in dict.fromkeys((*required, *properties)):
            if name in required:
                value[name] = self.value(properties.get(name, {}), words, depth + 1)
            elif depth < _ENOUGH and self.chance.random() < self.likelihood:
                try:
                    value[name] = self.value(properties[name], words, depth + 1)
                except Undrawable:
                    continue
        extra = schema.get("additionalProperties")
        if not properties and isinstance(extra, Mapping):
            value["a"] = self.value(extra, words, depth + 1)
        return value

    def _array(self, schema: Mapping[str, Any], words: Sequence[str], depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        most = min(schema.get("maxItems", 3), max(least, 3)) if depth < _ENOUGH else least
        count = self.chance.randint(min(max(least, 1), most), most)
        items = [self.value(schema.get("items", {}), words, depth + 1) for _ in range(count)]
        if schema.get("uniqueItems"):
            items = [each for at, each in enumerate(items) if each not in items[:at]]
        return items

    def _number(self, schema: Mapping[str, Any]) -> float:
        step = schema.get("multipleOf", 1)
        least = max(schema.get("minimum", -9), schema.get("exclusiveMinimum", -10) + step)
        most = min(schema.get("maximum", least + 99), schema.get("exclusiveMaximum", least + 100) - step)
        number = (
            self.chance.randint(-(-least // step), most // step) * step if most // step >= -(-least // step) else least
        )
        return int(number) if schema.get("type") == "integer" else number

    def _text(self, schema: Mapping[str, Any], words: Sequence[str]) -> str:
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        least, most = schema.get("minLength", 1), schema.get("maxLength", 10_000)
        if "pattern" in schema:
            fitting = [each for each in _CANDIDATES if least <= len(each) <= most and _matches(schema["pattern"], each)]
            if not fitting:
                raise Undrawable(f"no text is known for the pattern {schema['pattern']}")
            return self.chance.choice(fitting)
        text = "".join(self.chance.choices(words, k=self.chance.randint(max(least, 1), max(least, 6))))
        return text[:most]


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False
