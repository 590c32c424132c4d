"""Patterns with look-around or backreferences: they mean what they mean, and nobody waits for them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from toolcaddie import Runtime
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import CatalogError
from toolcaddie.core.schema import argument_errors, check_schema
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.testing import ScriptedProvider, call, say

PASSWORD = r"(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,}$"
BACKWARDS = r"(?=a)(a|aa)+$|(b)\2"


def field(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"text": schema}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (field(type="string", pattern=PASSWORD), {"text": "Secret42"}),
        (field(type="string", pattern=PASSWORD), {}),
        (field(pattern=PASSWORD), {"text": 7}),
        (field(type="string", pattern=r"^(a)\1$"), {"text": "aa"}),
        (field(anyOf=[{"type": "integer"}, {"type": "string", "pattern": PASSWORD}]), {"text": "Secret42"}),
        ({"type": "object", "patternProperties": {r"^(?!x-)": {"type": "integer"}}}, {"a": 1, "x-a": "b"}),
        ({"type": "object", "propertyNames": {"pattern": r"^(?!x-)"}}, {"a": 1}),
        ({"type": "object", "properties": {"pattern": {"type": "string"}}}, {"pattern": "(?=a)"}),
    ],
)
def test_what_such_a_pattern_allows_passes(schema: dict[str, Any], value: dict[str, Any]) -> None:
    check_schema(schema, what="a tool")
    assert argument_errors(schema, value) == []


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (field(type="string", pattern=PASSWORD), {"text": "secret"}, f'text: "secret" does not match "{PASSWORD}"'),
        (field(type="string", pattern=r"^(a)\1$"), {"text": "ab"}, "does not match"),
        (
            {"type": "object", "patternProperties": {r"^(?!x-)": {"type": "integer"}}, "additionalProperties": False},
            {"x-a": 1},
            "x-a",
        ),
        ({"type": "object", "propertyNames": {"pattern": r"^(?!x-)"}}, {"x-a": 1}, "does not match"),
        (
            {"$defs": {"p": {"pattern": PASSWORD}}, "type": "object", "properties": {"text": {"$ref": "#/$defs/p"}}},
            {"text": "secret"},
            "does not match",
        ),
    ],
)
def test_what_such_a_pattern_refuses_is_refused_in_the_words_of_every_pattern(
    schema: dict[str, Any], value: dict[str, Any], words: str
) -> None:
    assert words in argument_errors(schema, value)[0]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (field(type="string", pattern=PASSWORD), {"text": "a" * 200_000}),
        (field(type="string", pattern=r"(?=a)(a+)+$"), {"text": "a" * 200_000 + "b"}),
        (field(anyOf=[{"type": "integer"}, {"pattern": PASSWORD}]), {"text": "a" * 200_000}),
        (field(**{"not": {"pattern": PASSWORD}}), {"text": "a" * 200_000}),
        ({"type": "object", "patternProperties": {BACKWARDS: {"type": "integer"}}}, {"a" * 200_000 + "c": 1}),
        ({"type": "object", "propertyNames": {"pattern": BACKWARDS}}, {"a" * 200_000 + "c": 1}),
    ],
)
def test_a_text_too_long_for_such_a_pattern_is_refused_with_the_bound(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    started = time.process_time()
    (sentence,) = argument_errors(schema, value)
    assert "1,000 at most (setting bounds.pattern_text)" in sentence
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (field(type="array", items={"not": {"pattern": BACKWARDS}}), {"text": ["a" * 999 + "c"] * 900}),
        (
            {"type": "object", "patternProperties": {BACKWARDS: {"type": "integer"}}},
            {"a" * 900 + f"c{number}": 1 for number in range(900)},
        ),
    ],
)
def test_many_texts_for_such_a_pattern_end_with_the_time_for_all_of_them(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    started = time.process_time()
    (sentence,) = argument_errors(schema, value)
    assert "(setting bounds.pattern_seconds)" in sentence
    assert time.process_time() - started < 1.0


def test_a_long_text_is_matched_where_the_pattern_goes_never_back() -> None:
    schema = field(type="string", pattern=r"^a+$")
    assert argument_errors(schema, {"text": "a" * 900_000}) == []
    assert "does not match" in argument_errors(schema, {"text": "a" * 900_000 + "b"})[0]


def test_a_long_text_in_a_field_without_such_a_pattern_is_no_matter() -> None:
    schema = {"type": "object", "properties": {"password": {"pattern": PASSWORD}, "note": {"type": "string"}}}
    assert argument_errors(schema, {"password": "Secret42", "note": "a" * 500_000}) == []


def test_a_pattern_that_no_engine_understands_is_refused_at_load() -> None:
    with pytest.raises(CatalogError, match="invalid JSON Schema"):
        check_schema(field(pattern="(?=("), what="a tool")


class Passwords:
    """A source of one tool that takes a password and gives one back."""

    name = "passwords"
    revision = 1

    def __init__(self, answer: str = "done") -> None:
        self._answer = answer

    def tools(self) -> list[Tool]:
        schema = field(type="string", pattern=PASSWORD)
        return [Tool(name="set_password", source=self.name, input_schema=schema, output_schema=schema)]

    def categories(self) -> tuple[()]:
        return ()

    async def call_tool(self, *_: Any) -> ToolResult:
        return ToolResult(content=self._answer)

    async def close(self) -> None:
        pass


@pytest.mark.anyio
async def test_the_model_reads_why_its_text_was_not_matched_and_the_setting_is_obeyed() -> None:
    provider = ScriptedProvider([call("set_password", {"text": "a" * 500}), say("I see.")])
    async with Runtime(provider=provider, sources=[Passwords()], bounds=Bounds(pattern_text=499)) as runtime:
        result = await runtime.run("set it")
    (refusal,) = [message.text for message in result.messages if message.role == "tool"]
    assert "text: has 500 characters" in refusal
    assert "499 at most (setting bounds.pattern_text)" in refusal


@pytest.mark.anyio
async def test_a_result_is_held_against_its_own_patterns_within_the_same_bounds() -> None:
    provider = ScriptedProvider([call("set_password", {"text": "Secret42"}), say("I see.")])
    source = Passwords('{"text": "' + "a" * 300_000 + '"}')
    config = {"validateToolResponse": True}
    async with Runtime(provider=provider, sources=[source], tool_config=config, policy=AllowAll()) as runtime:
        result = await runtime.run("set it")
    (refusal,) = [message.text for message in result.messages if message.role == "tool"]
    assert "300,000 characters" in refusal
    assert "(setting bounds.pattern_text)" in refusal


@pytest.mark.parametrize(
    ("reference", "place"),
    [
        ("#/default/text", {"default": {"text": {"pattern": PASSWORD}}}),
        ("#/examples/0", {"examples": [{"pattern": PASSWORD}]}),
        ("#/x-notes/0/0", {"x-notes": [[{"pattern": PASSWORD}]]}),
    ],
)
def test_a_reference_to_a_value_is_refused_because_patterns_there_would_have_no_budget(
    reference: str, place: dict[str, Any]
) -> None:
    with pytest.raises(CatalogError, match=r"points to a value that is not a schema; put the definition under \$defs"):
        check_schema({**field(**{"$ref": reference}), **place}, what="t")
