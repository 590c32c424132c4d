"""Schemas are judged once, whoever wrote them; arguments are judged in words that name the field."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcaddie.core.errors import CatalogError
from toolcaddie.core.schema import argument_errors, canonical_json, check_schema, digest, estimate_tokens

MEMBER = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "days": {"type": "integer", "minimum": 1},
        "plan": {"enum": ["basic", "gold"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "at": {"anyOf": [{"type": "object", "required": ["street"]}, {"type": "null"}]},
        "rows": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def laughs(levels: int) -> dict[str, Any]:
    """Each definition names the one before twice: 2 ** levels schemas for one value."""
    definitions: dict[str, Any] = {"d0": {"type": "object"}}
    for level in range(1, levels):
        definitions[f"d{level}"] = {"allOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    return {"$defs": definitions, "$ref": f"#/$defs/d{levels - 1}"}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        MEMBER,
        {"$ref": "#"},
        {"properties": {"child": {"$ref": "#"}}},
        {"$defs": {"a": {"$anchor": "here", "type": "string"}}, "properties": {"x": {"$ref": "#here"}}},
        {"definitions": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/definitions/a"}}},
        {"$defs": {"a/b~c d": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a~1b~0c%20d"}}},
        {"$id": "https://example.com/x", "$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"x": {"type": "string"}}},
        {"properties": {"x": True, "y": False}, "additionalProperties": {"type": "string"}},
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}, "title": {}}},
        {"properties": {"x": {"const": {"$ref": "http://example.com"}, "default": {"$ref": "file:///x"}}}},
        {"properties": {"x": {"pattern": "^(?=.*[A-Z]).{8,}$"}}},
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        nested(31),
    ],
)
def test_usable_schemas_pass(schema: dict[str, Any]) -> None:
    check_schema(schema, what="tool 'x'")
    argument_errors(schema, {"x": "y"})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (True, "the schema must be a JSON object, not bool"),
        ([], "the schema must be a JSON object, not list"),
        ({"type": "array"}, "must have type 'object', not 'array'"),
        ({"type": ["object", "null"]}, r"must have type 'object', not \['object', 'null'\]"),
        ({"properties": {"a": {"type": "foo"}}}, r'invalid JSON Schema: properties.a.type: "foo" is not valid'),
        ({"required": "a"}, 'required: "a" is not of type "array"'),
        ({"properties": {"a": {"pattern": "("}}}, r'properties.a.pattern: "\(" is not a "regex"'),
        ({"properties": {"a": {"pattern": "(a{1000}){1000}{1000}"}}}, 'is not a "regex"'),
        ({"properties": {"a": {"$ref": "#/$defs/no"}}}, r"Pointer '/\$defs/no' does not exist"),
        ({"properties": {"a": {"$ref": "#no"}}}, "Anchor 'no' does not exist"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "'other.json' leaves the schema and is never fetched"),
        ({"properties": {"a": {"items": {"$ref": "file:///etc/passwd"}}}}, "'file:///etc/passwd' leaves the schema"),
        ({"$defs": {"a": {"$dynamicRef": "http://x/y#z"}}}, "'http://x/y#z' leaves the schema"),
        ({"properties": {"a": {"$id": "http://x/y", "$ref": "#/z"}}}, r"\$id 'http://x/y' inside the schema changes"),
        ({"$defs": {"a": {"properties": {"b": {"$ref": "http://" + "x" * 9_000}}}}}, "leaves the schema"),
        (nested(40), "nested more than 64 levels deep; put parts of it under"),
        (nested(100_000), "nested more than 64 levels deep"),
        (laughs(30), "more than 10000 steps, because its references multiply"),
        ({"default": object()}, "the schema is not JSON"),
        ({"description": "\ud800"}, "the schema is not JSON"),
    ],
)
def test_unusable_schemas_are_refused_by_name(schema: Any, words: str) -> None:
    with pytest.raises(CatalogError, match=words) as caught:
        check_schema(schema, what="tool 'x' of source 's'")
    assert str(caught.value).startswith("tool 'x' of source 's': ")
    assert len(str(caught.value)) < 600


@pytest.fixture
def visited() -> Iterator[tuple[str, list[str]]]:
    """A server that writes down who asks."""
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", paths
        server.shutdown()


def test_no_trick_makes_a_schema_fetch_anything(visited: tuple[str, list[str]], tmp_path: Path) -> None:
    url, paths = visited
    local = tmp_path / "schema.json"
    local.write_text("{}")
    for schema in [
        {"$ref": f"{url}/ref"},
        {"$ref": local.as_uri()},
        {"$schema": f"{url}/schema"},
        {"$id": f"{url}/id", "$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"$id": f"{url}/id", "$ref": "other"},
        {"$id": local.as_uri(), "properties": {"a": {"$ref": "schema.json"}}},
        {"properties": {"a": {"$schema": f"{url}/inner"}}},
        {"properties": {"a": {"$id": f"{url}/b", "properties": {"c": {"$ref": "d"}}}}},
        {"$dynamicRef": f"{url}/dynamic"},
        {"x-unknown": {"$ref": f"{url}/unknown"}, "$ref": "#/x-unknown"},
        {"const": {"$ref": f"{url}/const"}, "$ref": "#/const"},
    ]:
        try:
            check_schema(schema, what="x")
        except CatalogError:
            continue
        argument_errors(schema, {"a": {"c": 1}})
    assert paths == []


@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        ({"name": "ada", "days": 3, "note": None, "at": {"street": "x"}}, []),
        ({}, ['arguments: "name" is a required property']),
        ({"name": "ada", "days": "5"}, ['days: "5" is not of type "integer"']),
        ({"name": "ada", "days": 0}, ["days: 0 is less than the minimum of 1"]),
        ({"name": "ada", "plan": "silver"}, ['plan: "silver" is not one of "basic" or "gold"']),
        ({"name": "ada", "nmae": 1}, ["arguments: Additional properties are not allowed ('nmae' was unexpected)"]),
        ({"name": "ada", "note": 3}, ['note: 3 is not of type "string", "null"']),
        ({"name": "ada", "at": {}}, ['at: "street" is a required property']),
        ({"name": "ada", "rows": [1, "x", 2]}, ['rows.1: "x" is not of type "integer"']),
        ({"name": "ada", "days": 5.0}, []),
        ([], ['arguments: [] is not of type "object"']),
    ],
)
def test_errors_name_the_field_and_what_is_wrong(arguments: Any, errors: list[str]) -> None:
    assert argument_errors(MEMBER, arguments) == errors


def test_only_the_first_errors_are_told() -> None:
    wrong = {"name": 1, "days": "x", "plan": 3, "note": 4, "rows": ["a", "b"]}
    assert len(argument_errors(MEMBER, wrong)) == 3
    assert len(argument_errors(MEMBER, wrong, limit=1)) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": 5, "days": "x" * 5_000_000},
        {"name": "a", "rows": ["x"] * 300_000},
        {"name": "a", "y" * 1_000_000: 1},
        {"name": {"a": ["b" * 1_000_000]}},
    ],
)
def test_a_message_never_repeats_a_big_value_nor_takes_long(arguments: dict[str, Any]) -> None:
    started = time.monotonic()
    errors = argument_errors(MEMBER, arguments)
    assert errors
    assert all(len(error) < 400 for error in errors)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": {1, 2}}, "arguments: not JSON"),
        ({"name": object()}, "arguments: not JSON"),
        ({1: 2}, "arguments: not JSON"),
        ({"name": "\ud800"}, "arguments: not JSON"),
        ({"name": float("nan")}, "name: null is not of type"),
    ],
)
def test_what_is_no_json_is_an_error_and_no_exception(arguments: Any, words: str) -> None:
    assert argument_errors(MEMBER, arguments)[0].startswith(words)


def test_arguments_too_deep_for_a_recursive_schema_are_refused() -> None:
    """The validator itself would run out of stack, and the process with it."""
    schema = {"properties": {"a": {"$ref": "#"}}}
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"a": deep}
    assert argument_errors(schema, deep) == ["arguments: nested more than 64 levels deep"]
    for _ in range(100_000):
        deep = {"a": deep}
    assert argument_errors(schema, deep) == ["arguments: nested too deep"]


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", r"^(a*)*\1b$", "^(?=(a+)+b)x", "^(?:a?){30}a{30}$"])
def test_a_hostile_pattern_does_not_hang(pattern: str) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string", "pattern": pattern}}}
    check_schema(schema, what="x")
    started = time.monotonic()
    assert argument_errors(schema, {"text": "a" * 100_000 + "!"})
    assert time.monotonic() - started < 2


def test_canonical_json_and_digest_do_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": 1, "a": [2]}) == b'{"a":[2],"b":1}'
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert len(digest(None)) == 64


def test_tokens_are_bytes_by_a_ratio_rounded_up() -> None:
    assert [estimate_tokens(text) for text in ("", "a", "a" * 36, "a" * 37)] == [0, 1, 10, 11]
    assert estimate_tokens("é" * 18) == estimate_tokens(b"a" * 36)
    assert estimate_tokens("\ud800") == 1
