"""The slim schema means the same and is never bigger."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcaddie.core.schema import canonical_json, slim_schema, wire_definition
from toolcaddie.core.tool import Tool


def test_titles_examples_and_comments_go_and_constraints_stay() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/freeze",
        "title": "Freeze",
        "type": "object",
        "properties": {
            "days": {"title": "Days", "type": "integer", "minimum": 1, "examples": [3], "$comment": "x", "default": 30},
            "plan": {"enum": ["basic", "gold"], "deprecated": True},
        },
        "required": ["days"],
        "additionalProperties": False,
    }
    assert slim_schema(schema) == {
        "type": "object",
        "properties": {"days": {"type": "integer", "minimum": 1, "default": 30}, "plan": {"enum": ["basic", "gold"]}},
        "required": ["days"],
        "additionalProperties": False,
    }


NAMES = ["title", "examples", "example", "description", "default", "$ref", "$id", "$comment", "deprecated", "enum"]


@pytest.mark.parametrize("keyword", ["properties", "patternProperties", "$defs", "dependentSchemas"])
def test_a_keyword_that_is_a_name_stays(keyword: str) -> None:
    inner = {name: {"type": "string"} for name in NAMES}
    uses = {f"p{at}": {"$ref": f"#/$defs/{name}"} for at, name in enumerate(NAMES)} if keyword == "$defs" else {}
    slim = slim_schema({keyword: inner, "allOf": [{"properties": uses}]})
    if keyword == "$defs":  # all are equal, so one is left, and all lead to it
        (left,) = slim["$defs"]
        assert {each["$ref"] for each in slim["allOf"][0]["properties"].values()} == {f"#/$defs/{left}"}
    else:
        assert slim[keyword] == inner


def test_what_stands_in_a_value_is_no_schema() -> None:
    value = {"title": "t", "examples": [1], "$ref": "#/$defs/x", "description": "d " * 200}
    schema = {"properties": {"a": {"const": value}, "b": {"enum": [value]}, "c": {"default": value}}}
    assert slim_schema(schema) == schema


def test_a_long_description_is_cut_to_its_first_sentence_or_with_dots() -> None:
    def cut(text: str) -> Any:
        return slim_schema({"description": text})["description"]

    assert cut("Short. And fine.") == "Short. And fine."
    assert cut("The first sentence. " + "Another one. " * 30) == "The first sentence."
    assert cut("word " * 100) == ("word " * 100)[:157].rstrip() + "…"
    assert cut("x" * 161) == "x" * 157 + "…"
    assert cut("日" * 161) == "日" * 157 + "…"


def test_equal_definitions_are_folded_and_unused_ones_dropped() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/LongName"}, "b": {"$ref": "#/$defs/B"}, "c": {"$ref": "#/definitions/C"}},
        "$defs": {
            "LongName": {"title": "LongName", "type": "string", "minLength": 3},
            "B": {"title": "B", "type": "string", "minLength": 3},
            "Unused": {"$ref": "#/$defs/UnusedToo"},
            "UnusedToo": {"type": "null"},
        },
        "definitions": {"C": {"items": {"$ref": "#/$defs/LongName"}}, "D": {}},
    }
    assert slim_schema(schema) == {
        "properties": {"a": {"$ref": "#/$defs/B"}, "b": {"$ref": "#/$defs/B"}, "c": {"$ref": "#/definitions/C"}},
        "$defs": {"B": {"type": "string", "minLength": 3}},
        "definitions": {"C": {"items": {"$ref": "#/$defs/B"}}},
    }


def test_definitions_that_become_equal_by_folding_are_folded_too() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A1"}, "b": {"$ref": "#/$defs/B1"}},
        "$defs": {
            "A1": {"items": {"$ref": "#/$defs/A2"}},
            "B1": {"items": {"$ref": "#/$defs/B2"}},
            "A2": {"type": "string"},
            "B2": {"type": "string"},
        },
    }
    assert slim_schema(schema)["$defs"] == {"A1": {"items": {"$ref": "#/$defs/A2"}}, "A2": {"type": "string"}}


def test_recursion_survives() -> None:
    schema = {
        "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}},
        "properties": {"a": {"$ref": "#/$defs/Node"}},
    }
    assert slim_schema(schema) == schema
    assert slim_schema({"properties": {"a": {"$ref": "#"}}}) == {"properties": {"a": {"$ref": "#"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": {"$anchor": "here", "title": "x"}}, "$ref": "#here"},
        {"$defs": {"a": {"title": "x"}}, "$dynamicRef": "#here"},
        {"properties": {"a": {"$id": "b", "title": "x", "$ref": "#/$defs/c", "$defs": {"c": {}}}}, "$defs": {"c": {}}},
        {"examples": [{"type": "string"}], "$ref": "#/examples/0"},
        {"x-parts": {"title": {"type": "string"}}, "properties": {"a": {"$ref": "#/x-parts/title"}}},
        {"$defs": {"a": {"title": "x"}}, "$ref": "#/$defs"},
    ],
)
def test_a_schema_whose_references_would_change_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert slim_schema(schema) is schema


def test_what_is_no_schema_or_too_deep_stays_as_it_is() -> None:
    deep: dict[str, Any] = {"title": "x"}
    for _ in range(100_000):
        deep = {"not": deep}
    for given_schema in (True, False, None, "text", [], deep):
        assert slim_schema(given_schema) is given_schema


def test_the_slim_wire_definition_keeps_what_it_does_not_know() -> None:
    theirs = {
        "type": "function",
        "strict": True,
        "function": {"name": "a", "description": "One. " + "x" * 200, "parameters": {"title": "T"}, "strict": True},
    }
    tool = Tool(name="a", definition=theirs)
    assert wire_definition(tool) == theirs
    assert wire_definition(tool, slim=True) == {
        "type": "function",
        "strict": True,
        "function": {"name": "a", "description": "One.", "parameters": {}, "strict": True},
    }
    for odd in ({"type": "web_search"}, {"type": "function", "function": ["x"]}):
        assert wire_definition(Tool(name="a", definition=odd), slim=True) == odd


# Schemas whose parts are drawn from few names, so that references hit, definitions are equal, and names look like keywords.
_DEFINED = ["A", "B", "title", "a/b", "ö~"]
_FIELDS = ["a", "title", "description", "examples", "$ref", "properties"]
_TEXT = st.text("ab. é日", max_size=400)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "bb", "title"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=3),
    max_leaves=6,
)


def _reference(name: str) -> str:
    return "#/$defs/" + quote(name.replace("~", "~0").replace("/", "~1"), safe="~")


def _more(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "title": st.just("T"),
            "description": _TEXT,
            "examples": st.lists(_VALUES, max_size=2),
            "$comment": _TEXT,
            "default": _VALUES,
            "type": st.sampled_from(["object", "array", "string", "integer", ["null", "object"]]),
            "properties": st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=3),
            "required": st.lists(st.sampled_from(_FIELDS), max_size=1),
            "additionalProperties": inner | st.booleans(),
            "dependentSchemas": st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=1),
            "propertyNames": st.fixed_dictionaries({"maxLength": st.integers(1, 9)}),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "enum": st.lists(_VALUES, min_size=1, max_size=3),
            "const": _VALUES,
            "minimum": st.integers(-1, 2),
            "$ref": st.sampled_from(["#", "#/$defs", *map(_reference, _DEFINED)]),
            "x-unknown": _VALUES,
        },
    )


_PARTS = st.recursive(st.booleans() | st.just({}), _more, max_leaves=5)
_SCHEMAS = st.builds(
    lambda root, definitions: {**root, "$defs": {**{name: {} for name in _DEFINED}, **definitions}},
    _more(_PARTS),
    st.dictionaries(st.sampled_from(_DEFINED), _PARTS, max_size=4),
)


@settings(max_examples=200, deadline=None)
@given(_SCHEMAS, st.lists(_VALUES, min_size=1, max_size=6))
def test_slim_and_full_accept_the_same_and_slim_is_never_bigger(schema: dict[str, Any], values: list[Any]) -> None:
    slim = slim_schema(schema)
    assert len(msgspec.json.encode(slim)) <= len(msgspec.json.encode(schema))
    assert canonical_json(slim_schema(slim)) == canonical_json(slim)
    full_validator, slim_validator = (jsonschema_rs.Draft202012Validator(each) for each in (schema, slim))
    for value in [*values, {"a": values[0]}, [values[0]]]:
        assert slim_validator.is_valid(value) == full_validator.is_valid(value)
